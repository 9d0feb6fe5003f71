use std::sync::Arc;

use crate::address::Namespace;
use crate::declaration::Declaration;
use crate::key::{self, KeyError, KeyWriter, TopicKey};

/// A declaration within a namespace: what every handle to a topic shares.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) declaration: Declaration,
    /// The address without a key.
    pub(crate) address: Arc<str>,
}

impl Bound {
    pub(crate) fn new(declaration: Declaration, namespace: &Namespace) -> Self {
        let kind = declaration.kind().word();
        Self { declaration, address: format!("{namespace}.{kind}.{declaration}").into() }
    }

    /// Writes the channel of a key, or says how long the key was.
    pub(crate) fn channel(&self, most: usize, write_key: impl FnOnce(&mut KeyWriter<'_>)) -> Result<String, usize> {
        const TYPICAL_KEY_BYTES: usize = 48;
        let mut channel = String::with_capacity(self.address.len() + TYPICAL_KEY_BYTES);
        channel.push_str(&self.address);
        write_key(&mut KeyWriter::new(&mut channel));
        // The dot before the first segment belongs to the address, not to the key.
        let key = (channel.len() - self.address.len()).saturating_sub(1);
        if key > most { Err(key) } else { Ok(channel) }
    }

    /// Reads the key back from a channel.
    pub(crate) fn key_of<K: TopicKey>(&self, channel: &str) -> Result<K, KeyError> {
        match channel.strip_prefix(&*self.address) {
            Some(key) => key::decode(key),
            None => Err(KeyError::invalid("belongs to another topic")),
        }
    }
}
