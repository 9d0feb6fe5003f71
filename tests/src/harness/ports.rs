use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that Linux hands out by itself (from 32,768 on): nobody's outgoing connection takes the port of a
/// server that is down for a moment.
const RANGE: Range<u16> = 20_000..32_000;

/// Finds `count` ports of 127.0.0.1 on which nobody listens. This process gets each one only once, until the range is
/// used up; another process may be quicker, so whoever binds one has to be ready to try again with another.
#[must_use]
pub fn free_ports(count: usize) -> Vec<u16> {
    // Held together until all are found, so that they differ.
    let held: Vec<TcpListener> = (0..RANGE.len())
        .filter_map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, candidate())).ok())
        .take(count)
        .collect();
    assert_eq!(held.len(), count, "no {count} free ports in {RANGE:?} of 127.0.0.1");
    held.iter().map(|listener| listener.local_addr().expect("a bound listener has an address").port()).collect()
}

/// Walks through the range, from a place that differs between processes.
fn candidate() -> u16 {
    static STEPS: AtomicU16 = AtomicU16::new(0);
    let length = u32::from(RANGE.end - RANGE.start);
    let start = std::process::id().wrapping_mul(97) % length;
    let offset = (start + u32::from(STEPS.fetch_add(1, Ordering::Relaxed))) % length;
    RANGE.start + u16::try_from(offset).expect("the range is one of u16")
}
