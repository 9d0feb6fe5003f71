use tidings::topic;

#[topic(name = "orders.placed", version = 1)]
pub struct OrderPlaced {
    pub order: u64,
    pub region: ,
}

fn takes(_: &OrderPlaced) {}

fn main() {
    let _ = takes;
}
