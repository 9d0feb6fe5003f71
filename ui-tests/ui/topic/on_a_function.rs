use tidings::topic;

#[topic(name = "orders.placed", version = 1)]
fn placed() {}

fn main() {
    placed();
}
