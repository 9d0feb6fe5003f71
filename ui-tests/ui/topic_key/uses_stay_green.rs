use tidings::TopicKey;

#[derive(TopicKey)]
pub enum Region {
    Europe,
    Other(String),
}

#[tidings::topic(name = "orders.placed", version = 1, key = Region)]
pub struct OrderPlaced;

fn needs_key<K: TopicKey>() {}

fn main() {
    needs_key::<Region>();
}
