//! The conformance suite on every backend.

pub(crate) mod any;
pub(crate) mod kafka;
pub(crate) mod nats;
pub(crate) mod servers;

use any::AnyInMemory;
use kafka::{Kafka40, Kafka44, Kafka44Consumer, KafkaServer};
use nats::{Nats210, Nats215, NatsServer};
use servers::{ClusterNode, Redis7, Redis8, RedisServer, Valkey8};
use tidings::conformance::{InMemory, streams, topics};

topics!(memory, InMemory, patterns);
streams!(memory_streams, InMemory, ack_groups, commit_groups, cursors, transactions, ack_units, dedup);
streams!(any_streams, AnyInMemory, cursors);
topics!(redis_7_0, RedisServer<Redis7>, patterns, network);
topics!(redis_8_0, RedisServer<Redis8>, patterns, network);
topics!(valkey_8, RedisServer<Valkey8>, patterns, network);
topics!(redis_cluster, ClusterNode, network);
topics!(nats_2_10, NatsServer<Nats210>, patterns, network);
topics!(nats_2_15, NatsServer<Nats215>, patterns, network);
streams!(redis_7_0_streams, RedisServer<Redis7>, ack_groups, dedup, network);
streams!(redis_8_0_streams, RedisServer<Redis8>, ack_groups, dedup, network);
streams!(valkey_8_streams, RedisServer<Valkey8>, ack_groups, dedup, network);
streams!(redis_cluster_streams, ClusterNode, ack_groups, dedup, network);
streams!(nats_2_10_streams, NatsServer<Nats210>, cursors, dedup, network);
streams!(nats_2_15_streams, NatsServer<Nats215>, cursors, dedup, network);
// What is trimmed there is removed past the backend: Kafka counts no records.
streams!(kafka_4_0_streams, KafkaServer<Kafka40>, commit_groups, transactions, network);
streams!(kafka_4_4_streams, KafkaServer<Kafka44>, commit_groups, transactions, network);
streams!(kafka_4_4_consumer_streams, KafkaServer<Kafka44Consumer>, commit_groups, transactions);
