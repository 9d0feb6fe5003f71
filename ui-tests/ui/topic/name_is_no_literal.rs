use tidings::topic;

#[topic(name = NAME, version = 1)]
pub struct OrderPlaced {
    pub region: String,
    pub order: u64,
}

fn main() {}
