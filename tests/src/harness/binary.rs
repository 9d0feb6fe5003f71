use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// A supported server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Redis 7.0, the oldest supported.
    Redis7,
    /// Redis 8.
    Redis8,
    /// Valkey 8.1.
    Valkey8,
}

/// A supported Apache Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KafkaKind {
    /// Kafka 4.0, the oldest supported.
    Kafka40,
    /// Kafka 4.4.
    Kafka44,
}

/// A supported NATS server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NatsKind {
    /// NATS 2.10, the oldest supported.
    Nats210,
    /// NATS 2.15.
    Nats215,
}

/// The program of a [`Kind`], a [`KafkaKind`] or a [`NatsKind`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// The path to run.
    pub path: PathBuf,
    /// Why this one: the variable or the folder that led to it.
    pub origin: String,
}

/// Says that there is no program for a kind, where it was sought and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    name: &'static str,
    variable: &'static str,
    sought: Vec<PathBuf>,
}

impl Kind {
    /// Every kind, the oldest first.
    pub const ALL: [Self; 3] = [Self::Redis7, Self::Redis8, Self::Valkey8];

    /// The name that `scripts/brokers` gives to the program.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis7 => "redis-7",
            Self::Redis8 => "redis-8",
            Self::Valkey8 => "valkey-8",
        }
    }

    /// The environment variable that names another program.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Redis7 => "TIDINGS_REDIS_7",
            Self::Redis8 => "TIDINGS_REDIS_8",
            Self::Valkey8 => "TIDINGS_VALKEY_8",
        }
    }

    /// Finds the program: what [`variable`](Self::variable) names, else what `scripts/brokers` has put into
    /// `TIDINGS_BROKERS` or cargo's target folder. Panics with the remedy when there is none.
    #[must_use]
    pub fn binary(self) -> Binary {
        binary(self.name(), self.variable())
    }

    /// Finds the program that `named`, the value of [`variable`](Self::variable), says, else the first in `folders`.
    pub fn find(self, named: Option<OsString>, folders: &[PathBuf]) -> Result<Binary, Missing> {
        find(self.name(), self.variable(), named, folders)
    }
}

impl KafkaKind {
    /// Every kind, the oldest first.
    pub const ALL: [Self; 2] = [Self::Kafka40, Self::Kafka44];

    /// The name that `scripts/brokers` gives to the program.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kafka40 => "kafka-4.0",
            Self::Kafka44 => "kafka-4.4",
        }
    }

    /// The environment variable that names another program: the `kafka-run-class.sh` of a distribution.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Kafka40 => "TIDINGS_KAFKA_4_0",
            Self::Kafka44 => "TIDINGS_KAFKA_4_4",
        }
    }

    /// Finds the program as [`Kind::binary`] does. Panics with the remedy when there is none.
    #[must_use]
    pub fn binary(self) -> Binary {
        binary(self.name(), self.variable())
    }
}

impl NatsKind {
    /// Every kind, the oldest first.
    pub const ALL: [Self; 2] = [Self::Nats210, Self::Nats215];

    /// The name that `scripts/brokers` gives to the program.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nats210 => "nats-2.10",
            Self::Nats215 => "nats-2.15",
        }
    }

    /// The environment variable that names another program.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Nats210 => "TIDINGS_NATS_2_10",
            Self::Nats215 => "TIDINGS_NATS_2_15",
        }
    }

    /// Finds the program as [`Kind::binary`] does. Panics with the remedy when there is none.
    #[must_use]
    pub fn binary(self) -> Binary {
        binary(self.name(), self.variable())
    }
}

fn binary(name: &'static str, variable: &'static str) -> Binary {
    let folders = match env::var_os("TIDINGS_BROKERS") {
        Some(folder) => vec![PathBuf::from(folder)],
        // The test's own program is `<target folder>/[<platform>/]debug/deps/<test>`, wherever that folder is.
        None => env::current_exe()
            .expect("Linux tells a process where its program is")
            .ancestors()
            .skip(1)
            .take(4)
            .map(|folder| folder.join("brokers"))
            // Other packages that use these servers have a target folder of their own.
            .chain([Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target").join("brokers")])
            .collect(),
    };
    find(name, variable, env::var_os(variable), &folders).unwrap_or_else(|missing| panic!("{missing}"))
}

fn find(
    name: &'static str,
    variable: &'static str,
    named: Option<OsString>,
    folders: &[PathBuf],
) -> Result<Binary, Missing> {
    let candidates: Vec<(PathBuf, String)> = match named {
        Some(path) => vec![(path.into(), format!("named by {variable}"))],
        None => folders.iter().map(|folder| (folder.join(name), format!("found in {}", folder.display()))).collect(),
    };
    match candidates.iter().find(|(path, _)| path.is_file()) {
        Some((path, origin)) => Ok(Binary { path: path.clone(), origin: origin.clone() }),
        None => Err(Missing { name, variable, sought: candidates.into_iter().map(|(path, _)| path).collect() }),
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for KafkaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for NatsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`, {}", self.path.display(), self.origin)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sought: Vec<_> = self.sought.iter().map(|path| Path::display(path).to_string()).collect();
        write!(
            f,
            "no server `{}`; run `./scripts/brokers` to get it, or name one in {} (sought: {})",
            self.name,
            self.variable,
            sought.join(", "),
        )
    }
}

impl std::error::Error for Missing {}
