//! What can go wrong, in words that hold no payload, key or credential.

use std::sync::Arc;

use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;

use crate::capability::BackendError;
use crate::error::{ErrorKind, Outcome};

/// A failure that several callers share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: ErrorKind,
    pub(super) outcome: Outcome,
    pub(super) text: Arc<str>,
    /// The client's or the server's own word, where that matters to who asked.
    pub(super) code: Option<Code>,
}

impl Fault {
    pub(super) fn new(kind: ErrorKind, outcome: Outcome, text: impl Into<Arc<str>>) -> Self {
        Self { kind, outcome, text: text.into(), code: None }
    }

    /// The server can't be reached; nothing was done.
    pub(super) fn unreachable(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Unavailable, Outcome::NotApplied, text)
    }

    pub(super) fn closed(outcome: Outcome) -> Self {
        Self::new(ErrorKind::Closed, outcome, "the broker was closed")
    }

    pub(super) fn timeout(outcome: Outcome) -> Self {
        Self::new(ErrorKind::Timeout, outcome, "the server didn't answer within the timeout")
    }

    pub(super) fn absent() -> Self {
        Self::new(ErrorKind::Absent, Outcome::NotApplied, "the stream isn't there; `ensure` creates it")
    }

    /// The stream was made of late, and the server that was asked doesn't know it.
    pub(super) fn unheard() -> Self {
        Self::unreachable("the server that was asked hasn't heard of the stream yet")
    }

    pub(super) fn unsupported(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Unsupported, Outcome::NotApplied, text)
    }

    /// What the library answered to something that changes nothing, or that it refused to begin.
    pub(super) fn of(error: &KafkaError) -> Self {
        match code_of(error) {
            Some(code) => Self::of_code(code, Outcome::NotApplied),
            None => Self::without_code(error, Outcome::NotApplied),
        }
    }

    /// The same of something that was begun: where the answer got lost, it may have happened.
    pub(super) fn of_sent(error: &KafkaError) -> Self {
        match code_of(error) {
            Some(code) => Self::of_code(code, Outcome::Unknown),
            None => Self::without_code(error, Outcome::Unknown),
        }
    }

    /// What a code means. Where it doesn't say that nothing happened, it is as `lost` says.
    pub(super) fn of_code(code: Code, lost: Outcome) -> Self {
        let (kind, certain, meaning) = meaning(code);
        let outcome = if certain { Outcome::NotApplied } else { lost };
        let text = match meaning {
            Some(meaning) => meaning.to_owned(),
            None => format!("Kafka answered `{code:?}`"),
        };
        Self { kind, outcome, text: text.into(), code: Some(code) }
    }

    /// The same where an operation needs other rights than most.
    pub(super) fn needs(self, rights: &str) -> Self {
        let what = match self.code {
            Some(Code::TopicAuthorizationFailed) => "topic",
            Some(Code::GroupAuthorizationFailed) => "group",
            _ => return self,
        };
        Self { text: format!("the user has no right to the {what}; grant it {rights}").into(), ..self }
    }

    fn without_code(error: &KafkaError, lost: Outcome) -> Self {
        match error {
            // Its text may quote a setting.
            KafkaError::ClientCreation(_) | KafkaError::ClientConfig(..) => Self::new(
                ErrorKind::Refused,
                Outcome::NotApplied,
                "the client can't be set up; are the certificates and the key readable, and do they fit together?",
            ),
            KafkaError::Canceled => Self::closed(lost),
            KafkaError::Nul(_) | KafkaError::AdminOpCreation(_) => {
                Self::new(ErrorKind::Invalid, Outcome::NotApplied, "Kafka's client refused an argument")
            }
            _ => Self::new(ErrorKind::Unavailable, lost, "Kafka's client failed"),
        }
    }

    /// The same with what a caller knows of whether it happened.
    #[allow(dead_code)]
    pub(super) fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }
}

/// The code in an error, also where the crate keeps it to itself.
pub(super) fn code_of(error: &KafkaError) -> Option<Code> {
    match error {
        KafkaError::AdminOp(code) => Some(*code),
        _ => error.rdkafka_error_code(),
    }
}

/// The kind of a code, whether it says for sure that nothing happened, and its meaning in words.
fn meaning(code: Code) -> (ErrorKind, bool, Option<&'static str>) {
    use ErrorKind as Kind;
    match code {
        // The client's own.
        Code::QueueFull => (
            Kind::Overloaded,
            true,
            Some("the buffer of records on their way is full; append slower, or raise `buffer_bytes`"),
        ),
        Code::MessageTimedOut | Code::OperationTimedOut | Code::TimedOutQueue => {
            (Kind::Timeout, false, Some("the server didn't answer within the timeout"))
        }
        Code::RequestTimedOut => (Kind::Timeout, false, Some("the server didn't get it done in time")),
        Code::BrokerTransportFailure | Code::NetworkException => {
            let text = "the connection to the server broke, or couldn't be made; is it up, and is TLS on at both ends or at neither?";
            (Kind::Unavailable, false, Some(text))
        }
        Code::AllBrokersDown => (Kind::Unavailable, false, Some("no server of the cluster can be reached")),
        Code::Resolve => (Kind::Unavailable, false, Some("the host's name doesn't resolve")),
        Code::SSL => (
            Kind::Unavailable,
            false,
            Some("the TLS handshake failed; is the certificate signed by the authority, and does the port speak TLS?"),
        ),
        Code::Authentication | Code::SaslAuthenticationFailed => {
            (Kind::Forbidden, true, Some("user or password is wrong, or the server wants another way to log in"))
        }
        Code::UnsupportedSASLMechanism | Code::IllegalSASLState => {
            (Kind::Forbidden, true, Some("the server doesn't know this way to log in; choose another with `sasl`"))
        }
        // What was taken back from the queue may have been sent before, and have waited to be sent again.
        Code::PurgeQueue | Code::PurgeInflight | Code::BrokerDestroy | Code::DestroyBroker => {
            (Kind::Closed, false, Some("the broker was closed"))
        }
        Code::Fenced | Code::ProducerFenced | Code::FencedInstanceId | Code::InvalidProducerEpoch => {
            (Kind::Fenced, true, Some("another client of the same identity has taken over"))
        }
        Code::Fatal | Code::OutOfOrderSequenceNumber | Code::UnknownProducerId => {
            (Kind::Unavailable, false, Some("the server lost its memory of this client; another one is made"))
        }
        // What isn't there.
        Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownTopicId | Code::UnknownPartition => {
            (Kind::Absent, true, Some("the stream isn't there; `ensure` creates it"))
        }
        Code::GroupIdNotFound | Code::UnknownGroup => {
            (Kind::Absent, true, Some("the group isn't there; `ensure` creates it"))
        }
        // What is forbidden.
        Code::TopicAuthorizationFailed => (
            Kind::Forbidden,
            true,
            Some("the user has no right to the topic; grant it Describe, with Read to read and Write to append"),
        ),
        Code::GroupAuthorizationFailed => {
            (Kind::Forbidden, true, Some("the user has no right to the group; grant it Read"))
        }
        Code::ClusterAuthorizationFailed => (
            Kind::Forbidden,
            true,
            Some(
                "the user may append nowhere; grant it Write on the topic, before Kafka 2.8 IdempotentWrite on the cluster",
            ),
        ),
        Code::TransactionalIdAuthorizationFailed => {
            (Kind::Forbidden, true, Some("the user has no right to the transactional id; grant it Write"))
        }
        Code::PolicyViolation => (Kind::Forbidden, true, Some("the server's policy forbids it")),
        // What is too large or wrong.
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize => (
            Kind::TooLarge,
            true,
            Some("the record is larger than the topic takes; raise its `max.message.bytes`, or send less at once"),
        ),
        Code::InvalidReplicationFactor => (
            Kind::Unsupported,
            true,
            Some("the cluster has fewer servers than `replicas`; ask for fewer, or add servers"),
        ),
        Code::InvalidTopic => (Kind::Invalid, true, Some("Kafka takes no topic of that name")),
        Code::UnsupportedVersion | Code::UnsupportedFeature => {
            (Kind::Unsupported, true, Some("the server is too old for it"))
        }
        Code::TopicAlreadyExists => (Kind::Conflict, true, Some("the topic is there already")),
        // What passes.
        Code::NotEnoughReplicas => (Kind::Refused, true, Some("too few copies are in sync (`min.insync.replicas`)")),
        Code::NotEnoughReplicasAfterAppend => {
            (Kind::Refused, false, Some("it is stored, but in too few copies (`min.insync.replicas`)"))
        }
        Code::ThrottlingQuotaExceeded => (Kind::Refused, true, Some("the user's quota is used up")),
        Code::KafkaStorageError => (Kind::Refused, false, Some("the server's disk failed")),
        Code::UnknownLeaderEpoch
        | Code::FencedLeaderEpoch
        | Code::LeaderNotAvailable
        | Code::NotLeaderForPartition
        | Code::ReplicaNotAvailable
        | Code::BrokerNotAvailable
        | Code::CoordinatorNotAvailable
        | Code::CoordinatorLoadInProgress
        | Code::NotCoordinator
        | Code::NotController => (Kind::Unavailable, true, Some("no server is in charge of it at the moment")),
        _ => (Kind::Refused, false, None),
    }
}

impl From<Fault> for BackendError {
    fn from(fault: Fault) -> Self {
        Self::new(fault.kind, fault.outcome).with_source(&*fault.text)
    }
}
