use tidings::TopicKey;

#[derive(TopicKey)]
pub enum Region {
    #[topic_key(rename = eu)]
    Europe,
}

fn main() {}
