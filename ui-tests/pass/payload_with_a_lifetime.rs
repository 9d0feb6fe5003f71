//! A payload that borrows can be published.
#![deny(warnings)]

use serde::Serialize;
use tidings::{Broker, backend::Memory, topic};

#[topic(name = "orders.placed", version = 1, key = String)]
#[derive(Serialize)]
pub struct OrderPlaced<'a, T: ?Sized> {
    pub text: &'a str,
    pub more: &'a T,
}

#[topic(name = "orders.sent", version = 1, key(order))]
#[derive(Serialize)]
pub struct OrderSent<'a> {
    pub order: u64,
    pub text: &'a str,
}

async fn uses(broker: &Broker<Memory>) {
    let text = String::from("x");
    let topic = OrderPlaced::<str>::topic(broker).unwrap();
    let _ = topic.publish(&text, &OrderPlaced { text: &text, more: "y" }).await;
    let _ = OrderSent::topic(broker).unwrap().publish(&OrderSent { order: 1, text: &text }).await;
}

fn main() {
    let _ = uses;
}
