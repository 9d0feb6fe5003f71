//! The conformance suite on every backend.

mod servers;

use servers::{ClusterNode, Redis7, Redis8, RedisServer, Valkey8};
use tidings::conformance::{InMemory, streams, topics};

topics!(memory, InMemory, patterns);
streams!(streams_in_memory, InMemory, ack_groups, dedup);
topics!(redis_7_0, RedisServer<Redis7>, patterns, network);
topics!(redis_8_0, RedisServer<Redis8>, patterns, network);
topics!(valkey_8, RedisServer<Valkey8>, patterns, network);
topics!(redis_cluster, ClusterNode, network);
