use tidings::TopicKey;

#[derive(TopicKey)]
pub struct OrderKey<'a> {
    pub order: u64,
    pub region: std::borrow::Cow<'a, str>,
}

fn main() {}
