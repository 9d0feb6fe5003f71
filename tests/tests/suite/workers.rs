//! Workers: the conformance suite on every backend, and what only real servers and processes do to them.

mod faults;
mod load;
mod refusals;
mod weakened;

use crate::conformance::any::AnyInMemory;
use crate::conformance::kafka::{Kafka44, KafkaServer};
use crate::conformance::nats::{Nats210, Nats215, NatsServer};
use crate::conformance::servers::{ClusterNode, Redis7, Redis8, RedisServer, Valkey8};
use tidings::conformance::{InMemory, commit_workers, durable_workers, workers};

workers!(memory, InMemory);
commit_workers!(memory_commit, InMemory);
workers!(redis_7_0, RedisServer<Redis7>, network);
workers!(redis_8_0, RedisServer<Redis8>, network);
workers!(valkey_8, RedisServer<Valkey8>, network);
workers!(redis_cluster, ClusterNode, network);
commit_workers!(kafka_4_4_commit, KafkaServer<Kafka44>);
durable_workers!(memory_durable, InMemory);
durable_workers!(any_durable, AnyInMemory);
durable_workers!(nats_2_10_durable, NatsServer<Nats210>, network);
durable_workers!(nats_2_15_durable, NatsServer<Nats215>, network);
