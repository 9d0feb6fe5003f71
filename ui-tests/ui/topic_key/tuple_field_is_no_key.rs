use tidings::TopicKey;

#[derive(TopicKey)]
pub struct Place(pub u8, pub Option<u8>);

fn main() {}
