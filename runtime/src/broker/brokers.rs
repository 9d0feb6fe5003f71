use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::Broker;
use crate::address::check_connection_name;
use crate::capability::Backend;
use crate::error::{Error, ErrorKind, Operation};

const MAX_BROKERS: usize = 128;

/// A registry of named brokers, one of them the default. It never changes once built.
///
/// # Examples
///
/// ```
/// use tidings::{Broker, Brokers, Config, Namespace, backend::Memory};
///
/// let broker = Broker::new(Memory::new(), Config::new(Namespace::new("shop", "test")?))?;
/// let brokers = Brokers::builder("main").add("main", broker).build()?;
/// assert_eq!(brokers.names().collect::<Vec<_>>(), ["main"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Brokers<B: Backend> {
    default: String,
    brokers: BTreeMap<String, Broker<B>>,
}

impl<B: Backend> Brokers<B> {
    /// Starts a registry, naming the broker that will be its default.
    #[must_use]
    pub fn builder(default: impl Into<String>) -> BrokersBuilder<B> {
        BrokersBuilder { default: default.into(), brokers: BTreeMap::new(), problems: Vec::new() }
    }

    /// Returns the default broker.
    ///
    /// # Panics
    ///
    /// Never: a registry without its default isn't built.
    #[must_use]
    pub fn default_broker(&self) -> &Broker<B> {
        &self.brokers[&self.default]
    }

    /// Returns the broker of this name, if there is one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Broker<B>> {
        self.brokers.get(name)
    }

    /// Lists the names, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.brokers.keys().map(String::as_str)
    }

    /// Lists names and brokers, sorted by name.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Broker<B>)> {
        self.brokers.iter().map(|(name, broker)| (name.as_str(), broker))
    }
}

impl<B: Backend> std::fmt::Debug for Brokers<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Brokers").field("default", &self.default).field("brokers", &self.brokers).finish()
    }
}

/// Collects the brokers of a registry.
#[derive(Debug)]
pub struct BrokersBuilder<B: Backend> {
    default: String,
    brokers: BTreeMap<String, Broker<B>>,
    problems: Vec<String>,
}

impl<B: Backend> BrokersBuilder<B> {
    /// Adds a broker under a name that matches `[a-z0-9][a-z0-9_-]{0,126}`.
    #[must_use]
    pub fn add(mut self, name: impl Into<String>, broker: Broker<B>) -> Self {
        let name = name.into();
        if let Err(wrong) = check_connection_name("connection name", &name) {
            self.problems.push(wrong.to_string());
            return self;
        }
        match self.brokers.entry(name) {
            Entry::Vacant(free) => {
                free.insert(broker);
            }
            Entry::Occupied(taken) => {
                self.problems.push(format!("`{}` is there twice; give each broker its own name", taken.key()));
            }
        }
        self
    }

    /// Builds the registry.
    ///
    /// # Errors
    ///
    /// `Invalid` with every bad or duplicate name, a missing default, and a count outside 1 to 128.
    pub fn build(mut self) -> Result<Brokers<B>, Error> {
        if self.brokers.len() > MAX_BROKERS {
            self.problems.push(format!("{} brokers; a registry holds at most {MAX_BROKERS}", self.brokers.len()));
        }
        if !self.brokers.contains_key(&self.default) {
            let default: String = self.default.chars().take(127).collect();
            self.problems.push(format!("the default `{default}` is not among the brokers; add it"));
        }
        if self.problems.is_empty() {
            Ok(Brokers { default: self.default, brokers: self.brokers })
        } else {
            Err(Error::new(ErrorKind::Invalid, Operation::Build).detail(self.problems.join("; ")))
        }
    }
}
