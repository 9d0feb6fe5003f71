use tidings::TopicKey;

#[derive(TopicKey)]
pub struct OrderKey {
    region: Region,
}

#[derive(TopicKey)]
enum Region {
    Europe,
}

fn main() {}
