use tidings::capability::Log;
use tidings::{Broker, StreamSpec, StreamedBy};

fn bind<T: StreamSpec, B: Log>(broker: &Broker<B>) {
    let _ = <T as StreamedBy<Broker<B>>>::bind(broker);
}

fn main() {}
