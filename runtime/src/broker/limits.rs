use std::time::Duration;

/// Every bound of a broker, each a named field. A bad value is refused when the broker is built.
///
/// Zero never means "unlimited".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Declarations bound to the broker. Default 256, 1 to 65,536.
    pub declarations: usize,
    /// Operations at once: publishes, appends, reads, settlements and subscription set-ups; a batch counts as one. Default 4,096, 1 to 65,536.
    pub operations: usize,
    /// Subscriptions in set-up, live or draining. Default 64, 1 to 65,536.
    pub subscriptions: usize,
    /// One operation's timeout, waiting for a free place included in its first 5 s. Default 5 s, over 0, up to 10 min.
    pub timeout: Duration,
    /// Messages that a subscription buffers before it ends with `Overflow`. Default 64, 1 to 65,536.
    pub buffer_messages: usize,
    /// Bytes of payload that a subscription buffers before it ends with `Overflow`. Default 4 MiB, 1 B to 64 MiB.
    pub buffer_bytes: usize,
    /// Bytes of one payload that a subscription takes before it ends with `TooLarge`. Default 64 KiB, 1 B to 1 MiB.
    pub receive_bytes: usize,
    /// Bytes of one payload when publishing. Default 64 KiB, 1 B to 1 MiB.
    pub publish_bytes: usize,
    /// Channels of one subscription. Default 64, 1 to 1,024.
    pub channels: usize,
    /// Messages of one `publish_all`, records of one `append_all`, positions of one `ack`. Default 4,096, 1 to 65,536.
    pub batch_messages: usize,
    /// Bytes of an encoded key. Default 1,024, 1 to 4,096.
    pub key_bytes: usize,
    /// Bytes of one stream record's payload when appending. Default 512 KiB, 1 B to 8 MiB.
    pub append_bytes: usize,
    /// Headers of one record beside its own attributes. Default 64, 1 to 1,024.
    pub headers: usize,
    /// Bytes of all header names and values of one record. Default 16 KiB, 1 B to 1 MiB.
    pub header_bytes: usize,
    /// Records of one read, claim or page. Default 4,096, 1 to 65,536.
    pub read_records: usize,
    /// Groups of one stream that are looked up through the broker. Default 256, 1 to 65,536.
    pub groups: usize,
    /// How often a connection with subscriptions is asked for a sign of life; a dead peer is noticed within two of
    /// these. On Redis a read that waits asks again so often, too: one that hangs is told within one of these and a
    /// [`timeout`](Self::timeout), however long the wait. Default 5 s, 10 ms to 10 min.
    pub heartbeat: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            declarations: 256,
            operations: 4_096,
            subscriptions: 64,
            timeout: Duration::from_secs(5),
            buffer_messages: 64,
            buffer_bytes: 4 << 20,
            receive_bytes: 64 << 10,
            publish_bytes: 64 << 10,
            channels: 64,
            batch_messages: 4_096,
            key_bytes: 1_024,
            append_bytes: 512 << 10,
            headers: 64,
            header_bytes: 16 << 10,
            read_records: 4_096,
            groups: 256,
            heartbeat: Duration::from_secs(5),
        }
    }
}

macro_rules! setters {
    ($($name:ident: $type:ty),*) => {
        impl Limits {
            $(
                #[doc = concat!("Sets [`", stringify!($name), "`](Self#structfield.", stringify!($name), ").")]
                #[must_use]
                pub fn $name(mut self, $name: $type) -> Self {
                    self.$name = $name;
                    self
                }
            )*
        }
    };
}

setters!(
    declarations: usize, operations: usize, subscriptions: usize, timeout: Duration, buffer_messages: usize,
    buffer_bytes: usize, receive_bytes: usize, publish_bytes: usize, channels: usize, batch_messages: usize,
    key_bytes: usize, append_bytes: usize, headers: usize, header_bytes: usize, read_records: usize, groups: usize,
    heartbeat: Duration
);

impl Limits {
    pub(crate) fn problems(&self) -> Vec<String> {
        let counts = [
            ("declarations", self.declarations, 65_536),
            ("operations", self.operations, 65_536),
            ("subscriptions", self.subscriptions, 65_536),
            ("buffer_messages", self.buffer_messages, 65_536),
            ("buffer_bytes", self.buffer_bytes, 64 << 20),
            ("receive_bytes", self.receive_bytes, 1 << 20),
            ("publish_bytes", self.publish_bytes, 1 << 20),
            ("channels", self.channels, 1_024),
            ("batch_messages", self.batch_messages, 65_536),
            ("key_bytes", self.key_bytes, 4_096),
            ("append_bytes", self.append_bytes, 8 << 20),
            ("headers", self.headers, 1_024),
            ("header_bytes", self.header_bytes, 1 << 20),
            ("read_records", self.read_records, 65_536),
            ("groups", self.groups, 65_536),
        ];
        let longest = Duration::from_mins(10);
        let times = [
            ("timeout", self.timeout, Duration::from_nanos(1), longest),
            ("heartbeat", self.heartbeat, Duration::from_millis(10), longest),
        ];
        let counts = counts
            .into_iter()
            .filter(|(_, value, most)| !(1..=*most).contains(value))
            .map(|(name, value, most)| format!("`{name}` is {value}; give 1 to {most}"));
        let times = times
            .into_iter()
            .filter(|(_, value, least, most)| value < least || value > most)
            .map(|(name, value, least, most)| format!("`{name}` is {value:?}; give {least:?} to {most:?}"));
        counts.chain(times).collect()
    }
}
