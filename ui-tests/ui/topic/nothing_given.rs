use tidings::topic;

#[topic]
pub struct OrderPlaced {
    pub region: String,
    pub order: u64,
}

fn main() {}
