//! Streams: typed, ordered, replayable logs over a backend with `Log`.

mod ack_group;
mod address;
mod append;
mod bound;
mod commit_group;
mod convenience;
mod cursor;
mod delivery;
mod handle;
mod keyed;
mod position;
mod read;
mod record;
mod settings;
mod unit;

pub use ack_group::{AckGroup, Claimed, Consumer, Tail};
pub(crate) use ack_group::{PENDING_WITHOUT_HEIR, TRIMMED_WHILE_PENDING};
pub use address::{GroupAddress, StreamAddress};
pub use append::Append;
pub use commit_group::{CommitGroup, Member, MemberTail};
pub use convenience::{AppendEntry, AppendKeyed};
pub use cursor::{Cursor, Durable, DurableInfo, DurableOwner, DurableSettings, InFlight};
pub use delivery::{Delivery, Poison};
pub use handle::Stream;
pub use keyed::KeyedStream;
pub use position::{Position, PositionError, Positions};
pub use read::Reader;
pub use record::{Headers, MessageId, Origin, Record, partition_of};
pub use settings::{Depth, Durability, Lag, MemberSettings, PendingEntry, Receipt, Start, Storage, StreamSettings};

pub use unit::Unit;

pub(crate) use bound::BoundStream;
