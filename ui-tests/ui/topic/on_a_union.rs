use tidings::topic;

#[topic(name = "orders.placed", version = 1)]
pub union Placed {
    a: u8,
}

fn main() {}
