use tidings::TopicKey;

#[derive(TopicKey)]
pub enum Region {
    #[topic_key(rename = "eu", rename = "europe")]
    Europe,
}

fn main() {}
