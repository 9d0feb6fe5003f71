use tidings::topic;

#[topic(name = , version = 1)]
pub struct OrderPlaced {
    pub order: u64,
}

fn takes(placed: &OrderPlaced) -> u64 {
    placed.order
}

fn main() {
    let _ = takes;
}
