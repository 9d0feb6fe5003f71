//! Sending commits, each of which takes a thread while it waits for its answer.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::types::RDKafkaErrorCode as Code;

use super::super::fault::{Fault, code_of};
use super::listener::Listener;
use crate::error::{ErrorKind, Outcome};

/// The thread that has a consumer's commits sent, one after the other. It ends when this is dropped and the last was
/// answered.
///
/// librdkafka tells a commit's answer only to who waits for it, and where the server hangs it waits for as long as a session and
/// several requests. So nobody waits for this thread, not even a close: the consumer goes with whichever has it last.
pub(super) struct Committer {
    lists: SyncSender<TopicPartitionList>,
}

impl Committer {
    pub(super) fn start(
        consumer: &Arc<BaseConsumer<Listener>>,
        told: impl Fn(Option<Code>) + Send + 'static,
    ) -> Result<Self, Fault> {
        let (sender, lists) = sync_channel::<TopicPartitionList>(1);
        let consumer = consumer.clone();
        let work = move || {
            for list in lists {
                let failed = consumer.commit(&list, CommitMode::Sync).err();
                told(failed.map(|error| code_of(&error).unwrap_or(Code::Fail)));
            }
        };
        let started = std::thread::Builder::new().name("kafka commits".to_owned()).spawn(work);
        started.map_err(|_| {
            Fault::new(ErrorKind::Overloaded, Outcome::NotApplied, "the system has no thread left; raise its limit")
        })?;
        Ok(Self { lists: sender })
    }

    pub(super) fn send(&self, list: TopicPartitionList) -> Result<(), Fault> {
        self.lists.send(list).map_err(|_| Self::ended())
    }

    pub(super) fn ended() -> Fault {
        Fault::new(ErrorKind::Unavailable, Outcome::Unknown, "the thread that commits ended")
    }
}
