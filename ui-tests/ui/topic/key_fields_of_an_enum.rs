use tidings::topic;

#[topic(name = "orders.placed", version = 1, key(region))]
pub enum OrderEvent {
    Placed { region: String },
}

fn main() {}
