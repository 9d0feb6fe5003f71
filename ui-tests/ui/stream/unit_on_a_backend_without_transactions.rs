use tidings::Broker;

fn record(broker: &Broker<ui_tests::NoUnits>) {
    let _ = broker.unit();
}

fn main() {}
