//! Memory's durables, with a weakness in each test.

use std::marker::PhantomData;
use std::time::Duration;

use tidings::backend::Memory;
use tidings::capability::{Backend, BackendError, BoundDurable, Pulled, Ticket, Verdict};
use tidings::conformance::{InMemory, Raw, Streams, Subject, streams};
use tidings_tests::twisted::{CursorTwist, Twist, Twisted, TwistedDurable};

use super::must_fail;

type Client = <Memory as Backend>::Client;
type Answer<T> = Result<T, BackendError>;
type Settlements = Vec<(Ticket, Verdict)>;

/// Memory with a flaw, as a subject.
struct Weak<W> {
    memory: InMemory,
    flaw: PhantomData<fn() -> W>,
}

impl<W: CursorTwist<Inner = Memory>> Subject for Weak<W> {
    type Backend = Twisted<W>;

    const PAUSED: bool = true;

    async fn start() -> Self {
        Self { memory: InMemory::start().await, flaw: PhantomData }
    }

    fn backend(&self) -> Twisted<W> {
        Twisted(self.memory.backend())
    }

    async fn interrupt(&self) {
        self.memory.interrupt().await;
    }

    async fn refuse(&self, refuse: bool) {
        self.memory.refuse(refuse).await;
    }
}

impl<W: CursorTwist<Inner = Memory>> Streams for Weak<W> {
    const TRIMS_FOR_SURE: bool = true;
    const STORAGES: &'static [tidings::Storage] = &[tidings::Storage::Memory];

    async fn append_raw(&self, stream: &str, partition: u32, record: Raw) {
        self.memory.append_raw(stream, partition, record).await;
    }

    async fn read_raw(&self, stream: &str, partition: u32) -> Vec<Raw> {
        self.memory.read_raw(stream, partition).await
    }
}

struct Honest;

impl Twist for Honest {
    type Inner = Memory;
}

impl CursorTwist for Honest {}

streams!(honest, Weak<Honest>, cursors);

/// Settles with other verdicts, or not at all, and says that it did as it was told.
async fn settled<W: CursorTwist>(
    durable: &TwistedDurable<W>,
    settlements: Settlements,
    other: impl Fn(Verdict) -> Option<Verdict> + Send,
) -> Vec<Answer<()>> {
    let count = settlements.len();
    let changed = settlements.into_iter().filter_map(|(ticket, verdict)| Some((ticket, other(verdict)?))).collect();
    durable.inner.settle(changed).await;
    (0..count).map(|_| Ok(())).collect()
}

/// Takes, with changes to what was taken.
async fn taken<W: CursorTwist>(
    durable: &TwistedDurable<W>,
    max: usize,
    wait: Duration,
    change: impl FnMut(Pulled) -> Option<Pulled> + Send,
) -> Answer<Vec<Pulled>> {
    Ok(durable.inner.pull(max, wait).await?.into_iter().filter_map(change).collect())
}

macro_rules! weaknesses {
    ($($name:ident fails $($property:ident)+, $sentence:literal { $($twist:item)* })+) => {
        $(
            #[test]
            fn $name() {
                struct It;
                impl Twist for It {
                    type Inner = Memory;
                }
                impl CursorTwist for It {
                    $($twist)*
                }
                $(must_fail($sentence, || tidings::conformance::run(tidings::conformance::$property::<Weak<It>>));)+
            }
        )+
    };
}

mod admin;
mod deliveries;
mod workers;
