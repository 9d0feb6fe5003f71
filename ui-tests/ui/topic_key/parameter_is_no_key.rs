use tidings::TopicKey;

#[derive(TopicKey)]
pub struct Tagged<T> {
    pub tag: T,
    pub order: u64,
}

fn needs_key<K: TopicKey>() {}

fn main() {
    needs_key::<Tagged<u8>>();
    needs_key::<Tagged<f64>>();
}
