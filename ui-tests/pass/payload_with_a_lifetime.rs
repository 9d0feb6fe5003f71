//! A payload that borrows can be published and appended.
#![deny(warnings)]

use serde::Serialize;
use tidings::{Broker, backend::Memory, stream_spec, topic};

#[topic(name = "orders.placed", version = 1, key = String)]
#[stream_spec(name = "orders.placed", version = 1, key = String)]
#[derive(Serialize)]
pub struct OrderPlaced<'a, T: ?Sized> {
    pub text: &'a str,
    pub more: &'a T,
}

#[stream_spec(name = "orders.sent", version = 1, key(order))]
#[topic(name = "orders.sent", version = 1, key(order))]
#[derive(Serialize)]
pub struct OrderSent<'a> {
    pub order: u64,
    pub text: &'a str,
}

async fn uses(broker: &Broker<Memory>, logs: &Broker<ui_tests::LogOnly>) {
    let text = String::from("x");
    let topic = OrderPlaced::<str>::topic(broker).unwrap();
    let _ = topic.publish(&text, &OrderPlaced { text: &text, more: "y" }).await;
    let _ = OrderSent::topic(broker).unwrap().publish(&OrderSent { order: 1, text: &text }).await;
    let stream = OrderPlaced::<str>::stream(logs).unwrap();
    let _ = stream.append(&text, &OrderPlaced { text: &text, more: "y" }).await;
    let stream = OrderSent::stream(logs).unwrap();
    let _ = stream.append(&OrderSent { order: 1, text: &text }).await;
    let _ = stream.append_all([&OrderSent { order: 1, text: &text }]).await;
}

fn main() {
    let _ = uses;
}
