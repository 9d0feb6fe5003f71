use tidings::TopicKey;

#[derive(TopicKey)]
pub struct OrderKey<'a> {
    pub region: &'a str,
    pub order: u64,
}

fn main() {}
