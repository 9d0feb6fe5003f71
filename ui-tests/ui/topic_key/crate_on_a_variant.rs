use tidings::TopicKey;

#[derive(TopicKey)]
pub enum Region {
    #[topic_key(crate = ::tidings)]
    Europe,
}

fn main() {}
