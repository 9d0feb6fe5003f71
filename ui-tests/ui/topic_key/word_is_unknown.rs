use tidings::TopicKey;

#[derive(TopicKey)]
#[topic_key(rename_all = "lowercase")]
pub enum Region {
    Europe,
}

fn main() {}
