use tidings::TopicKey;

#[derive(TopicKey)]
pub struct OrderKey {
    #[topic_key(rename = "number")]
    pub order: u64,
}

fn main() {}
