use tidings::TopicKey;

#[derive(TopicKey)]
pub enum Region {
    Europe,
    #[topic_key(rename = "Europe")]
    Eu,
}

fn main() {}
