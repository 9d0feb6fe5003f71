use tidings::TopicKey;

#[derive(TopicKey)]
pub struct OrderKey {
    pub region: String,
    pub weight: f64,
}

fn main() {}
