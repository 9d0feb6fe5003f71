use tidings::TopicKey;

#[derive(TopicKey)]
pub struct Weights(pub std::vec::Vec<f64>);

fn main() {}
