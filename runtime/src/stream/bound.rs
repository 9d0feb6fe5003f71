use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::{DurableSettings, GroupAddress, Origin, Start, StreamAddress, StreamSettings};
use crate::address::Namespace;
use crate::broker::lock;
use crate::codec::Codec;
use crate::declaration::{Declaration, StreamSpec};
use crate::key::KeyWriter;

/// A stream's declaration within a namespace: what every handle to it shares.
#[derive(Debug)]
pub(crate) struct BoundStream {
    pub(crate) declaration: Declaration,
    pub(crate) address: Arc<StreamAddress>,
    /// What this broker has ensured the stream with.
    ensured: Mutex<Option<StreamSettings>>,
    groups: Mutex<Groups>,
}

type Groups = HashMap<(Discipline, Arc<str>), Arc<BoundGroup>>;

/// How a group consumes. Groups of two disciplines share nothing, also where they have one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Discipline {
    Ack,
    Commit,
    Durable,
}

/// A group of a stream: what every handle to it shares.
#[derive(Debug)]
pub(crate) struct BoundGroup {
    pub(crate) address: Arc<GroupAddress>,
    /// Where this broker has ensured the group to start.
    ensured: Mutex<Option<Start>>,
    /// The same of a durable, with its settings.
    durable: Mutex<Option<DurableSettings>>,
}

impl BoundStream {
    pub(crate) fn new<T: StreamSpec>(namespace: &Namespace) -> Self {
        let declaration = T::DECLARATION;
        let text = T::ADDRESS.map_or_else(|| format!("{namespace}.stream.{declaration}").into(), Arc::from);
        let origin = Origin {
            source: Some(format!("/{}/{}", namespace.application(), namespace.environment())),
            event_type: Some(declaration.to_string()),
            content_type: Some(T::Codec::CONTENT_TYPE.to_owned()),
        };
        let address = StreamAddress::new(text, T::ADDRESS.is_some(), Arc::new(origin));
        Self { declaration, address: Arc::new(address), ensured: Mutex::default(), groups: Mutex::default() }
    }

    pub(crate) fn ensured(&self) -> Option<StreamSettings> {
        lock(&self.ensured).clone()
    }

    pub(super) fn remember(&self, settings: Option<StreamSettings>) {
        *lock(&self.ensured) = settings;
    }

    /// Finds or makes a group, unless there are `most` of them.
    pub(super) fn group(&self, discipline: Discipline, name: &str, most: usize) -> Option<Arc<BoundGroup>> {
        let mut groups = lock(&self.groups);
        let name: Arc<str> = name.into();
        let key = (discipline, name.clone());
        if let Some(group) = groups.get(&key) {
            return Some(group.clone());
        }
        if groups.len() >= most {
            return None;
        }
        let address = Arc::new(GroupAddress::new(self.address.clone(), name));
        let group = Arc::new(BoundGroup { address, ensured: Mutex::default(), durable: Mutex::default() });
        groups.insert(key, group.clone());
        Some(group)
    }
}

impl BoundGroup {
    /// Where to begin when the group has to be made again and nothing is known to be acknowledged: never at the end.
    pub(crate) fn start(&self) -> Start {
        match &*lock(&self.ensured) {
            None | Some(Start::Latest) => Start::Earliest,
            Some(start) => start.clone(),
        }
    }

    pub(crate) fn is_ensured(&self) -> bool {
        lock(&self.ensured).is_some()
    }

    /// What this broker has ensured the durable with.
    pub(crate) fn durable(&self) -> Option<DurableSettings> {
        lock(&self.durable).clone()
    }

    pub(super) fn remember_durable(&self, settings: Option<DurableSettings>) {
        *lock(&self.ensured) = settings.as_ref().map(|settings| settings.start.clone());
        *lock(&self.durable) = settings;
    }

    pub(super) fn remember(&self, start: Option<Start>) {
        *lock(&self.ensured) = start;
    }
}

/// Gives a key's text to a function, `None` for the key `()`. The text stands in room that the thread keeps.
pub(super) fn with_key<R>(write_key: impl FnOnce(&mut KeyWriter<'_>), take: impl FnOnce(Option<&str>) -> R) -> R {
    /// The thread keeps no more.
    const KEPT_BYTES: usize = 1 << 10;
    thread_local! {
        static TEXT: Cell<String> = const { Cell::new(String::new()) };
    }
    // A key's or a payload's own code may append; the inner append then takes room of its own.
    let mut text = TEXT.take();
    write_key(&mut KeyWriter::new(&mut text));
    // Each segment begins with a dot, which joins it to what stands before.
    let taken = take(text.strip_prefix('.'));
    if text.capacity() <= KEPT_BYTES {
        text.clear();
        TEXT.set(text);
    }
    taken
}
