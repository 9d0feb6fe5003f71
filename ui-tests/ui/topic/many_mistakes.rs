use tidings::topic;

#[topic(name = "Orders_Placed", version = 0, keys(regoin), grup = 1, codec)]
pub struct OrderPlaced {
    pub region: String,
    pub order: u64,
}

fn main() {}
