//! What a cluster says of itself.

use std::sync::Arc;

use rdkafka::consumer::Consumer as _;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::time::Instant;

use super::client::{Clients, before};
use super::fault::Fault;
use crate::capability::{Checked, Wanted};
use crate::error::Outcome;

pub(super) async fn check(clients: &Arc<Clients>, wanted: Wanted) -> Result<Checked, Fault> {
    // What can't be expressed is as good as none.
    let deadline = wanted.patience.and_then(|most| Instant::now().checked_add(before(most)));
    clients
        .call("kafka check", move |clients| {
            let by = || {
                let longest = Instant::now() + clients.patience();
                deadline.map_or(longest, |deadline| deadline.min(longest))
            };
            let asker = clients.asker()?;
            // Of a topic that can't be, so that the answer is short.
            let metadata = clients.metadata_by("tidings.check", by())?;
            let servers = metadata.brokers().len();
            let cluster =
                asker.client().fetch_cluster_id(by().saturating_duration_since(Instant::now())).unwrap_or_default();
            let mut checked = Checked::new(format!("kafka cluster `{cluster}` of {servers}"));
            for stream in &wanted.streams {
                let topic = stream.text();
                let metadata = clients.metadata_by(topic, by())?;
                let found = metadata.topics().iter().find(|found| found.name() == &**topic);
                match found.and_then(rdkafka::metadata::MetadataTopic::error).map(Code::from) {
                    // A stream that isn't there is made by `ensure`.
                    None
                    | Some(
                        Code::NoError
                        | Code::UnknownTopicOrPartition
                        | Code::UnknownTopic
                        | Code::UnknownTopicId
                        | Code::LeaderNotAvailable,
                    ) => {}
                    Some(Code::TopicAuthorizationFailed) => checked.problems.push(format!(
                        "the user may not see the topic `{topic}`, or it isn't there; grant it Describe, Read and Write"
                    )),
                    Some(code) => {
                        let fault = Fault::of_code(code, Outcome::NotApplied);
                        checked.problems.push(format!("the topic `{topic}` can't be used: {}", fault.text));
                    }
                }
                let leaderless =
                    found.is_some_and(|found| found.partitions().iter().any(|partition| partition.leader() < 0));
                if leaderless {
                    checked.problems.push(format!("the topic `{topic}` has partitions without a server in charge"));
                }
            }
            if clients.settings.address.login.is_some() {
                checked
                    .unchecked
                    .push("the rights to append and to read; Kafka tells them only when they are used".to_owned());
            }
            Ok(checked)
        })
        .await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::backend::Kafka;
    use crate::{Broker, Config, ErrorKind, Namespace};

    #[tokio::test]
    async fn a_check_says_why_within_its_deadline() {
        // Nothing listens at the first; no name ends like the second.
        for (url, why) in [("kafka://127.0.0.1:1", "the connection"), ("kafka://tidings.invalid", "doesn't resolve")] {
            let namespace = Namespace::new("shop", "test").unwrap();
            let broker = Broker::new(Kafka::new(url).unwrap(), Config::new(namespace)).unwrap();
            let failed = broker.check(Duration::from_secs(3)).await.unwrap_err();
            assert_eq!(failed.kind(), ErrorKind::Unavailable, "{failed:?}");
            assert!(format!("{failed:?}").contains(why), "{failed:?}");
            broker.close(Duration::from_secs(5)).await.unwrap();
        }
    }
}
