//! Redis and Valkey, alone or as a cluster.
