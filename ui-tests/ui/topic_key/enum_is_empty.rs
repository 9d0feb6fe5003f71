use tidings::TopicKey;

#[derive(TopicKey)]
pub enum Region {}

fn main() {}
