//! What every backend with streams must do.

mod ack;
mod admin;
mod append;
mod binding;
mod claim;
mod dedup;
mod ending;
pub(super) mod entries;
mod follow;
mod limits;
mod read;
mod record;
mod settle;
pub(super) mod steps;
mod trimmed;
mod wire;

use std::collections::BTreeMap;
use std::future::Future;

use super::Subject;
use crate::capability::Log;
use crate::stream::{Position, Storage};

pub use ack::{ack_cancelled, ack_competing, ack_depth, ack_pending, ack_poison, ack_recorded, history};
pub use admin::{
    ack_group_ensure, ack_group_lost, ack_remove_consumer, ack_starts, stream_ensure, stream_update, trim_acknowledged,
};
pub use append::{append_all, append_id, append_lost_reply, append_order, append_recorded, append_silent};
pub use binding::{stream_bind, stream_keys, stream_no_io};
pub use claim::{ack_claim, ack_claim_lost};
pub use dedup::{append_dedup, dedup_window};
pub use ending::{ack_close, ack_interrupted, stream_close, stream_interrupted, stream_refused, stream_stats};
pub use follow::{ack_follow, tail};
pub use limits::{ack_limits, stream_limits};
pub use read::{read_after, read_cancelled, read_partitions, read_waits};
pub use record::{headers, poison_in_place, positions};
pub use settle::{ack_extend, ack_release, ack_settled};
pub use trimmed::{ack_trimmed, ack_trimmed_partitions, read_trimmed, tail_trimmed};
pub use wire::{stream_wire, stream_wire_foreign};

/// A system with streams.
pub trait Streams: Subject<Backend: Log> {
    /// Whether the system knows for sure that a reader was overtaken, as memory does, or only that it may have been, as
    /// Redis does.
    const TRIMS_FOR_SURE: bool;
    /// How many replicas the system has, for [`Durability::Replicas`](crate::Durability::Replicas).
    const REPLICAS: u32 = 0;
    /// Whether the system keeps the number of copies that [`StreamSettings::replicas`](crate::StreamSettings::replicas)
    /// asks for. Where it has no such setting, it must refuse it.
    const COPIES: bool = false;

    /// How many partitions a stream can have at most. The system must refuse more.
    const PARTITIONS: u32 = 1_024;

    /// Whether the system keeps the newest records of a partition by their number
    /// ([`StreamSettings::max_len`](crate::StreamSettings::max_len)). Where it doesn't, it must refuse that.
    const COUNTS: bool = true;
    /// Whether a stream has a window for ids ([`StreamSettings::dedup_window`](crate::StreamSettings::dedup_window)). Where
    /// it hasn't, the system must refuse any but the default.
    const REMEMBERS: bool = true;
    /// Where a stream's records can be. The system must refuse every other storage.
    const STORAGES: &'static [Storage] = &[];
    /// Whether the settings of a stream that is there can be changed. Where they can't, that must be refused.
    const UPDATES: bool = false;
    /// Whether who reads a stream that is removed and made anew at once is told so. Kafka's client goes on where it was.
    const RENEWS: bool = true;
    /// Whether a delivery counts an attempt that didn't arrive, since its handle let go while it was on its way.
    const COUNTS_UNARRIVED: bool = true;

    /// Removes the records of a partition up to a position, past the backend. Only a system that doesn't
    /// [count](Self::COUNTS) is asked to.
    fn remove_raw(&self, stream: &str, last: Position) -> impl Future<Output = ()> + Send {
        async move { panic!("nothing of `{stream}` up to {last} is removed where records are counted") }
    }

    /// Appends a record to a partition of a stream that is there, past the backend.
    fn append_raw(&self, stream: &str, partition: u32, record: Raw) -> impl Future<Output = ()> + Send;

    /// Reads all records of a partition, past the backend.
    fn read_raw(&self, stream: &str, partition: u32) -> impl Future<Output = Vec<Raw>> + Send;
}

/// `CloudEvents` attributes and extensions by their names: `id`, `source`, `datacontenttype`. The binding's own prefixes
/// and places are the subject's to add and to take off; what else stands in a record must come under its own name.
pub type Attributes = BTreeMap<String, Vec<u8>>;

/// A record as it stands on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "subjects make it")]
pub struct Raw {
    /// The attributes.
    pub attributes: Attributes,
    /// The payload.
    pub data: Vec<u8>,
}

impl Raw {
    /// Makes a record with a payload and nothing else, as one from elsewhere may be.
    #[must_use]
    pub fn new(data: impl Into<Vec<u8>>) -> Self {
        Self { attributes: Attributes::new(), data: data.into() }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.attributes.insert(name.to_owned(), value.into());
        self
    }
}
