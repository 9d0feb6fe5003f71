use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::statistics::Statistics;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::types::{RDKafkaErrorCode as Code, RDKafkaRespErr};

use super::super::fault::code_of;
use crate::broker::lock;

/// What a consumer says while it is polled, in order, for the thread that polls it.
#[derive(Clone, Default)]
pub(super) struct Listener {
    heard: Arc<Heard>,
}

#[derive(Default)]
struct Heard {
    news: Mutex<Vec<News>>,
    /// Rises with whatever is heard.
    count: AtomicU64,
    /// Whether changes are to be agreed to at once.
    leaving: AtomicBool,
    /// Whether the member is on its way into the group, or into its next generation.
    joining: AtomicBool,
}

/// Something that happened.
pub(super) enum News {
    /// These partitions are to be the member's, once the consumer is told so.
    Assign(Vec<i32>),
    /// These partitions are to go, once the consumer is told so; where they are lost they are another's already.
    Revoke { partitions: Vec<i32>, lost: bool },
    /// The commit that was sent has ended.
    Committed(Option<Code>),
    /// Something is wrong with the connections.
    Trouble(Code),
}

impl Listener {
    pub(super) fn take(&self) -> Vec<News> {
        std::mem::take(&mut *lock(&self.heard.news))
    }

    pub(super) fn count(&self) -> u64 {
        self.heard.count.load(Ordering::Acquire)
    }

    /// From now on, agrees to changes at once.
    pub(super) fn leave(&self) {
        self.heard.leaving.store(true, Ordering::Release);
    }

    /// Says that the member is on its way in.
    pub(super) fn joins(&self) {
        self.heard.joining.store(true, Ordering::Release);
    }

    pub(super) fn is_joining(&self) -> bool {
        self.heard.joining.load(Ordering::Acquire)
    }

    pub(super) fn tell(&self, news: News) {
        lock(&self.heard.news).push(news);
        self.count_up();
    }

    fn count_up(&self) {
        self.heard.count.fetch_add(1, Ordering::AcqRel);
    }
}

impl ClientContext for Listener {
    // Its texts may hold names of the caller's.
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {
        self.count_up();
    }

    fn stats(&self, _: Statistics) {
        self.count_up();
    }

    fn error(&self, error: KafkaError, _: &str) {
        match code_of(&error) {
            Some(code) => self.tell(News::Trouble(code)),
            None => self.count_up(),
        }
    }
}

impl ConsumerContext for Listener {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, change: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let assign = change == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        // Each generation begins with an assignment, which may be empty. What was revoked begins another.
        self.heard.joining.store(!assign, Ordering::Release);
        if self.heard.leaving.load(Ordering::Acquire) {
            // Where it fails there is nothing to agree to any more.
            let _ = if assign { consumer.incremental_assign(list) } else { consumer.incremental_unassign(list) };
            self.count_up();
            return;
        }
        let partitions = list.elements().iter().map(TopicPartitionListElem::partition).collect();
        self.tell(if assign {
            News::Assign(partitions)
        } else {
            News::Revoke { partitions, lost: consumer.assignment_lost() }
        });
    }
}
