use tidings::topic;

#[topic(name = "orders.placed", version = 1, key(region))]
pub struct OrderPlaced<'a> {
    pub region: &'a str,
}

fn main() {}
