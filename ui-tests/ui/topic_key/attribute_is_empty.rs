use tidings::TopicKey;

#[derive(TopicKey)]
pub enum Region {
    #[topic_key]
    Europe,
}

fn main() {}
