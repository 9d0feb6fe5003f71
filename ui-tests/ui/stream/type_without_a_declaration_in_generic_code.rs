use tidings::capability::Backend;
use tidings::{Broker, StreamedBy};

pub struct LedgerEntry;

fn bind<T: StreamedBy<Broker<B>>, B: Backend>(broker: &Broker<B>) {
    let _ = T::bind(broker);
}

fn uses(broker: &Broker<ui_tests::LogOnly>) {
    bind::<LedgerEntry, _>(broker);
}

fn main() {}
