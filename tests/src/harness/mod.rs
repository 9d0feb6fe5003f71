//! Private servers and the ways to break them.
//!
//! | | |
//! |---|---|
//! | [`Server`] | one Redis or Valkey server: kill it, pause it, restart it on the same port with the same data |
//! | [`Cluster`] | three primaries, with or without replicas: fail over, move a slot |
//! | [`Kafka`] | one Apache Kafka, private or shared by a group of tests; [`Door`]s are proxies that clients stay behind |
//! | [`KafkaCluster`] | three brokers: kill, pause or stop a partition's leader |
//! | [`Nats`] | one NATS server with JetStream: kill it, pause it, restart it on the same port with the same store |
//! | [`NatsCluster`] | three of them: kill a stream's leader |
//! | [`Proxy`] | stands between a client and a server: cuts, refuses, stalls, swallows replies, counts commands |
//! | [`Program`] | a program of the tests' own in another process: kill it, pause it |
//! | [`Tls`] | a certificate authority, a server's certificate and a client's |
//! | [`within`], [`eventually`] | waits that end with an explanation |
//!
//! Everything is private to the test that starts it and is gone when the value is dropped, or when the test's process
//! dies by whatever cause. The waits here use the runtime's clock and real sockets: don't pause the clock around them.

mod binary;
mod cluster;
mod deadline;
mod kafka;
mod nats;
mod ports;
mod process;
mod proxy;
mod resp;
mod server;
mod tls;

pub use binary::{Binary, KafkaKind, Kind, Missing, NatsKind};
pub use cluster::{Cluster, Replicas};
pub use deadline::{PATIENCE, eventually, within};
pub use kafka::{Door, Kafka, KafkaCluster, KafkaOptions, KafkaResource, KafkaRight};
pub use nats::{Nats, NatsCluster, NatsOptions, NatsTls};
pub use ports::free_ports;
pub use process::Program;
pub use proxy::{Counters, Cut, Direction, Proxy, Refusal};
pub use resp::Value;
pub use server::{RedisOptions, Server};
pub use tls::Tls;
