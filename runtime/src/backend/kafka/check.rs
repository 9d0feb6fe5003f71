//! What a cluster says of itself.

use std::sync::Arc;

use rdkafka::consumer::Consumer as _;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::client::Clients;
use super::fault::Fault;
use crate::capability::{Checked, Wanted};
use crate::error::Outcome;

pub(super) async fn check(clients: &Arc<Clients>, wanted: Wanted) -> Result<Checked, Fault> {
    clients
        .call("kafka check", move |clients| {
            let timeout = clients.patience();
            let asker = clients.asker()?;
            // Of a topic that can't be, so that the answer is short.
            let metadata = clients.metadata("tidings.check")?;
            let servers = metadata.brokers().len();
            let cluster = asker.client().fetch_cluster_id(timeout).unwrap_or_default();
            let mut checked = Checked::new(format!("kafka cluster `{cluster}` of {servers}"));
            for stream in &wanted.streams {
                let topic = stream.text();
                let metadata = clients.metadata(topic)?;
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
