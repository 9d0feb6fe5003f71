use tidings::TopicKey;

#[derive(TopicKey)]
pub enum Region {
    #[topic_key(renmae = "eu")]
    Europe,
}

fn main() {}
