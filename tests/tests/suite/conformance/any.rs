//! Memory as a backend that is chosen at run time.

use tidings::backend::AnyBackend;
use tidings::conformance::{InMemory, Raw, Streams, Subject};

pub(crate) struct AnyInMemory(InMemory);

impl Subject for AnyInMemory {
    type Backend = AnyBackend;

    const PAUSED: bool = true;

    async fn start() -> Self {
        Self(InMemory::start().await)
    }

    fn backend(&self) -> AnyBackend {
        self.0.backend().into()
    }

    async fn interrupt(&self) {
        self.0.interrupt().await;
    }

    async fn refuse(&self, refuse: bool) {
        self.0.refuse(refuse).await;
    }
}

impl Streams for AnyInMemory {
    const TRIMS_FOR_SURE: bool = true;
    const STORAGES: &'static [tidings::Storage] = &[tidings::Storage::Memory];
    const UPDATES: bool = true;

    async fn append_raw(&self, stream: &str, partition: u32, record: Raw) {
        self.0.append_raw(stream, partition, record).await;
    }

    async fn read_raw(&self, stream: &str, partition: u32) -> Vec<Raw> {
        self.0.read_raw(stream, partition).await
    }
}
