use tidings::TopicKey;

#[derive(TopicKey)]
#[topic_key(rename = "order")]
pub struct OrderKey {
    pub order: u64,
}

fn main() {}
