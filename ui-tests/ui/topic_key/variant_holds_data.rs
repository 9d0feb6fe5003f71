use tidings::TopicKey;

#[derive(TopicKey)]
pub enum Region {
    Europe,
    Other(String),
    Named { name: String },
}

fn main() {}
