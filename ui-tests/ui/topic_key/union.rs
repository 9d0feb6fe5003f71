use tidings::TopicKey;

#[derive(TopicKey)]
pub union Region {
    a: u8,
}

fn main() {}
