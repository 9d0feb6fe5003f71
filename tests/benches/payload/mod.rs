//! The payload of the benches: ten fields of the usual kinds.

use serde::{Deserialize, Serialize};

/// How an order is paid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Payment {
    Card,
    Invoice { days: u8 },
}

#[tidings::topic(name = "bench.orders", version = 1, key = u64)]
#[tidings::stream_spec(name = "bench.orders", version = 1, key = u64, requires(ack_groups))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    id: u64,
    balance: i64,
    total: f64,
    customer: String,
    note: String,
    express: bool,
    coupon: Option<u32>,
    items: Vec<u32>,
    payment: Payment,
    offset: i32,
}

impl Order {
    pub(crate) fn new(id: u64) -> Self {
        Self {
            id,
            balance: -1_234_567,
            total: 1_299.95,
            customer: "Ada Lovelace".to_owned(),
            note: "leave it with the neighbour".to_owned(),
            express: true,
            coupon: Some(77),
            items: vec![3, 14, 159, 2_653],
            payment: if id.is_multiple_of(2) { Payment::Invoice { days: 30 } } else { Payment::Card },
            offset: -120,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    #[allow(dead_code, reason = "each bench uses a part of this module")]
    pub(crate) fn renumber(&mut self, id: u64) {
        self.id = id;
    }
}
