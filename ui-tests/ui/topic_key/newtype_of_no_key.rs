use tidings::TopicKey;

#[derive(TopicKey)]
pub struct Weight(pub f64);

fn main() {}
