//! What users may do.

use super::super::deadline::eventually;
use super::{Kafka, KafkaOptions, wire};

/// What a right is for.
#[derive(Clone, Copy, Debug)]
pub enum KafkaResource<'a> {
    /// The topic of this name.
    Topic(&'a str),
    /// The consumer group of this name.
    Group(&'a str),
    /// Every transactional id that begins so.
    Transactions(&'a str),
}

/// What Kafka calls an operation. Read, Write and Delete imply Describe.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum KafkaRight {
    /// Read.
    Read = 3,
    /// Write.
    Write = 4,
    /// Create.
    Create = 5,
    /// Delete.
    Delete = 6,
    /// Describe.
    Describe = 8,
    /// `DescribeConfigs`.
    DescribeConfigs = 10,
}

impl KafkaOptions {
    /// Adds someone who may do only what is [granted](Kafka::grant), as all users may then.
    #[must_use]
    pub fn restricted_user(mut self, name: &str, password: &str) -> Self {
        let settings = [
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            // The harness and the brokers among each other, who don't log in.
            "super.users=User:ANONYMOUS",
        ];
        self.config.extend(settings.map(str::to_owned));
        self.user(name, password)
    }
}

impl Kafka {
    /// Lets a user do this; returns when the server goes by it.
    pub async fn grant(&self, user: &str, resource: KafkaResource<'_>, rights: &[KafkaRight]) {
        let (number, name, prefix) = match resource {
            KafkaResource::Topic(name) => (2, name, false),
            KafkaResource::Group(name) => (3, name, false),
            KafkaResource::Transactions(prefix) => (5, prefix, true),
        };
        for right in rights {
            let grant = wire::Grant { user, resource: number, name, prefix, right: *right as u8 };
            wire::grant(self.ports.inside, &grant)
                .await
                .unwrap_or_else(|error| panic!("{} grants no {right:?} on {resource:?}: {error}", self.describe()));
            eventually(format!("{right:?} on {resource:?} is granted"), || async {
                let granted = wire::is_granted(self.ports.inside, &grant).await.map_err(|error| error.to_string())?;
                if granted { Ok(()) } else { Err("not yet".to_owned()) }
            })
            .await;
        }
    }
}
