//! Memory's streams, with a weakness of choice.

use std::collections::HashMap;
use std::future::pending;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use tidings::backend::Memory;
use tidings::capability::{
    AckGroups, Backend, BackendError, Checked, Dedup, GroupAddress, Host, Log, Read, Record, Stored, StreamAddress,
    Taken, Wanted,
};
use tidings::conformance::{self, InMemory, Network, Raw, Streams, Subject};
use tidings::{
    Depth, Durability, ErrorKind, Headers, MessageId, Outcome, PendingEntry, Position, Positions, Receipt, Start,
    StreamSettings,
};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::must_fail;

/// What is wrong with a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    Nothing,
    DropsARecord,
    AnswersBeforeItRecords,
    StoresARecordTwice,
    GivesFallingPositions,
    PromisesReplicas,
    ReversesABatch,
    StopsABatch,
    SharesIds,
    LosesTheKey,
    LosesAHeader,
    ManglesPayloads,
    CreatesOnAppend,
    AcceptsOtherSettings,
    ForgetsAChange,
    ChangesByMakingAnew,
    CreatesOnUpdate,
    JumpsOverWhatIsTrimmed,
    TellsOfItLate,
    StartsAtTheEndEachTime,
    ReadsInclusively,
    DropsPoison,
    DoesNotWait,
    WaitsTooLong,
    IgnoresAClose,
    DoubtsWhatNeverHappened,
    LosesWhatACancelledReadTook,
    DeliversToTwo,
    ResetsAGroup,
    SaysItCreated,
    StartsAtTheEarliest,
    WaitsForAStartBeyondTheEnd,
    WaitsForATimeToCome,
    CountsAcksWrong,
    ForgetsAcks,
    AcksAllUpTo,
    ClaimsWhatIsFresh,
    CountsNoClaim,
    ClaimsTheNewest,
    HidesWhatIsLost,
    ListsBackwards,
    GivesOthersHistory,
    KeepsWhatIsReleased,
    ExtendsForOthers,
    ExtendsNothing,
    SettlesOverGaps,
    SettlesNothing,
    TrimsWhatIsPending,
    DropsWithTheConsumer,
    HidesWhatARemovedConsumerLost,
    MakesAGroupAgain,
    SaysNothingIsUnread,
    ExtendsTheWindow,
    ForgetsIds,
    StoresADuplicate,
    MovesADuplicate,
    SharesIdsAmongStreams,
    RetriesAnAppend,
    DeniesALostReply,
    WaitsForSilence,
}

/// Chooses a flaw by a type.
trait Weakness: Send + Sync + 'static {
    const FLAW: Flaw;
}

#[derive(Default)]
struct Shared {
    appended: u64,
    held_back: Option<Record>,
    /// Where ids stand, by stream, and since when.
    ids: HashMap<(String, MessageId), (Position, Instant)>,
    groups: Vec<Arc<str>>,
    starts: HashMap<Arc<str>, Start>,
    last_taken: Option<Stored>,
    untold: Vec<Read>,
    last_acknowledged: Option<Position>,
    lose_replies: bool,
    silent: bool,
}

struct Flawed<W> {
    memory: InMemory,
    shared: Arc<Mutex<Shared>>,
    weakness: PhantomData<fn() -> W>,
}

struct Client {
    memory: <Memory as Backend>::Client,
    shared: Arc<Mutex<Shared>>,
    host: Host,
}

impl Client {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("nobody panicked with it")
    }

    /// Where a silent peer keeps one waiting.
    async fn heard<W: Weakness>(&self) -> Result<(), BackendError> {
        if !self.shared().silent {
            return Ok(());
        }
        if W::FLAW == Flaw::WaitsForSilence {
            pending::<()>().await;
        }
        self.host.within(Outcome::Unknown, pending()).await
    }
}

/// More than there ever is.
const ALL: usize = 65_536;

impl<W: Weakness> Backend for Flawed<W> {
    type Client = Client;

    fn system(&self) -> &'static str {
        "flawed"
    }

    fn client(&self, host: Host) -> Result<Client, Vec<String>> {
        let memory = self.memory.backend().client(host.clone())?;
        Ok(Client { memory, shared: self.shared.clone(), host })
    }

    async fn check(client: &Client, wanted: Wanted) -> Result<Checked, BackendError> {
        Memory::check(&client.memory, wanted).await
    }

    async fn close(client: &Client) {
        Memory::close(&client.memory).await;
    }
}

impl<W: Weakness> Flawed<W> {
    /// Appends with what is wrong with a record on its way.
    async fn store(client: &Client, stream: &StreamAddress, mut record: Record) -> Result<Receipt, BackendError> {
        match W::FLAW {
            Flaw::SharesIds => record.id = Some(MessageId::read("01923456-789a-7def-8123-456789abcdef")),
            Flaw::LosesTheKey => record.key = None,
            Flaw::LosesAHeader => {
                let mut headers = Headers::default();
                for (name, value) in record.headers.iter().filter(|(name, _)| *name != "region") {
                    headers.push(name, value.clone());
                }
                record.headers = headers;
            }
            Flaw::ManglesPayloads => record.data = [&record.data[..], b" "].concat().into(),
            _ => {}
        }
        let stored = Memory::append(&client.memory, stream, record.clone(), Durability::Primary).await;
        if W::FLAW == Flaw::CreatesOnAppend && stored.as_ref().is_err_and(|error| error.kind == ErrorKind::Absent) {
            Memory::ensure(&client.memory, stream, &StreamSettings::new()).await?;
            return Memory::append(&client.memory, stream, record, Durability::Primary).await;
        }
        stored
    }

    /// Answers for an id by a memory of its own.
    fn known(client: &Client, stream: &StreamAddress, id: &MessageId, window: Duration) -> Option<Position> {
        let mut shared = client.shared();
        let (position, since) = shared.ids.get_mut(&Self::key(stream, id))?;
        if since.elapsed() >= window {
            return None;
        }
        if W::FLAW == Flaw::ExtendsTheWindow {
            *since = Instant::now();
        }
        Some(*position)
    }

    fn key(stream: &StreamAddress, id: &MessageId) -> (String, MessageId) {
        let stream = if W::FLAW == Flaw::SharesIdsAmongStreams { "" } else { &**stream.text() };
        (stream.to_owned(), id.clone())
    }

    async fn store_once(client: &Client, stream: &StreamAddress, mut record: Record) -> Result<Receipt, BackendError> {
        let Some(id) = record.id.clone().filter(|_| record.once) else {
            return Self::store(client, stream, record).await;
        };
        match W::FLAW {
            Flaw::ExtendsTheWindow | Flaw::SharesIdsAmongStreams => {
                let window = Memory::window(&client.memory, stream).await?;
                if let Some(position) = Self::known(client, stream, &id, window) {
                    return Ok(Receipt::new(Some(position), true));
                }
                record.once = false;
                let receipt = Self::store(client, stream, record).await?;
                if let Some(position) = receipt.position {
                    client.shared().ids.insert(Self::key(stream, &id), (position, Instant::now()));
                }
                Ok(receipt)
            }
            Flaw::ForgetsIds => {
                record.once = false;
                Self::store(client, stream, record).await
            }
            Flaw::StoresADuplicate | Flaw::MovesADuplicate => {
                let mut again = record.clone();
                again.once = false;
                let mut receipt = Self::store(client, stream, record).await?;
                if receipt.duplicate && W::FLAW == Flaw::StoresADuplicate {
                    Self::store(client, stream, again).await?;
                } else if receipt.duplicate {
                    receipt.position = receipt.position.map(|at| Position::new(at.partition(), at.offset() + 1));
                }
                Ok(receipt)
            }
            _ => Self::store(client, stream, record).await,
        }
    }

    async fn append_one(client: &Client, stream: &StreamAddress, record: Record) -> Result<Receipt, BackendError> {
        client.heard::<W>().await?;
        let tenth = {
            let mut shared = client.shared();
            shared.appended += 1;
            shared.appended.is_multiple_of(10)
        };
        let told = Position::new(0, u128::from(client.shared().appended));
        match W::FLAW {
            Flaw::DropsARecord if tenth => return Ok(Receipt::new(Some(told), false)),
            Flaw::AnswersBeforeItRecords => {
                let before = client.shared().held_back.replace(record);
                if let Some(before) = before {
                    Self::store_once(client, stream, before).await?;
                }
                return Ok(Receipt::new(Some(told), false));
            }
            Flaw::StoresARecordTwice if tenth => {
                Self::store_once(client, stream, record.clone()).await?;
            }
            _ => {}
        }
        let lost = client.shared().lose_replies;
        if lost && W::FLAW == Flaw::RetriesAnAppend {
            Self::store_once(client, stream, record.clone()).await?;
        }
        let mut receipt = Self::store_once(client, stream, record).await;
        if lost {
            let outcome = if W::FLAW == Flaw::DeniesALostReply { Outcome::NotApplied } else { Outcome::Unknown };
            return Err(BackendError::new(ErrorKind::Unavailable, outcome));
        }
        if let (Flaw::GivesFallingPositions, Ok(receipt)) = (W::FLAW, &mut receipt) {
            receipt.position =
                receipt.position.map(|at| Position::new(at.partition(), u128::from(u64::MAX) - at.offset()));
        }
        if let (Flaw::DoubtsWhatNeverHappened, Err(failed)) = (W::FLAW, &mut receipt) {
            failed.outcome = Outcome::Unknown;
        }
        receipt
    }
}

impl<W: Weakness> Log for Flawed<W> {
    fn admits(client: &Client, stream: &StreamAddress, durability: Durability) -> Result<(), String> {
        match W::FLAW {
            Flaw::PromisesReplicas => Ok(()),
            _ => Memory::admits(&client.memory, stream, durability),
        }
    }

    async fn ensure(client: &Client, stream: &StreamAddress, settings: &StreamSettings) -> Result<(), BackendError> {
        match Memory::ensure(&client.memory, stream, settings).await {
            Err(failed) if W::FLAW == Flaw::AcceptsOtherSettings && failed.kind == ErrorKind::Conflict => Ok(()),
            ensured => ensured,
        }
    }

    async fn update(client: &Client, stream: &StreamAddress, settings: &StreamSettings) -> Result<(), BackendError> {
        match W::FLAW {
            Flaw::ForgetsAChange => Ok(()),
            Flaw::ChangesByMakingAnew if Memory::delete(&client.memory, stream).await? => {
                Memory::ensure(&client.memory, stream, settings).await
            }
            Flaw::CreatesOnUpdate => {
                // What is there is `Conflict`.
                let _ = Memory::ensure(&client.memory, stream, settings).await;
                Memory::update(&client.memory, stream, settings).await
            }
            _ => Memory::update(&client.memory, stream, settings).await,
        }
    }

    async fn delete(client: &Client, stream: &StreamAddress) -> Result<bool, BackendError> {
        Memory::delete(&client.memory, stream).await
    }

    async fn append(
        client: &Client,
        stream: &StreamAddress,
        record: Record,
        _: Durability,
    ) -> Result<Receipt, BackendError> {
        Self::append_one(client, stream, record).await
    }

    async fn append_all(
        client: &Client,
        stream: &StreamAddress,
        mut records: Vec<Record>,
        _: Durability,
    ) -> Vec<Result<Receipt, BackendError>> {
        match W::FLAW {
            Flaw::ReversesABatch => records.reverse(),
            Flaw::StopsABatch => records.truncate(50),
            _ => {}
        }
        let mut receipts = Vec::new();
        for record in records {
            receipts.push(Self::append_one(client, stream, record).await);
        }
        receipts
    }

    async fn start(client: &Client, stream: &StreamAddress, start: &Start) -> Result<Positions, BackendError> {
        let resolved = Memory::start(&client.memory, stream, start).await?;
        Ok(match (W::FLAW, start) {
            (Flaw::StartsAtTheEndEachTime, Start::Latest) => Position::new(0, u128::MAX).into(),
            (Flaw::WaitsForATimeToCome, Start::At(time)) if *time > SystemTime::now() => {
                Position::new(0, u128::MAX).into()
            }
            _ => resolved,
        })
    }

    async fn read(
        client: &Client,
        stream: &StreamAddress,
        after: &Positions,
        max: usize,
        wait: Duration,
    ) -> Result<Read, BackendError> {
        client.heard::<W>().await?;
        let mut after = after.clone();
        let mut wait = wait;
        match W::FLAW {
            Flaw::StartsAtTheEndEachTime if after.get(0).is_some_and(|at| at.offset() == u128::MAX) => {
                after = Memory::start(&client.memory, stream, &Start::Latest).await?;
            }
            Flaw::ReadsInclusively => {
                let before = |at: Position| Position::new(at.partition(), at.offset().saturating_sub(1));
                after = after.iter().map(before).collect();
            }
            Flaw::DoesNotWait => wait = Duration::ZERO,
            Flaw::WaitsTooLong if !wait.is_zero() => wait += Duration::from_secs(5),
            _ => {}
        }
        let mut read = Memory::read(&client.memory, stream, &after, max, wait).await;
        match (W::FLAW, &mut read) {
            (Flaw::JumpsOverWhatIsTrimmed, Ok(Read::Trimmed { first, .. })) => {
                after.remove(first.partition());
                return Memory::read(&client.memory, stream, &after, max, wait).await;
            }
            (Flaw::DropsPoison, Ok(Read::Records(records))) => {
                records.retain(|stored| stored.record.data.starts_with(b"{") && stored.record.data.ends_with(b"}"));
            }
            (Flaw::IgnoresAClose, Err(failed)) if failed.kind == ErrorKind::Closed => sleep(wait).await,
            (Flaw::DoubtsWhatNeverHappened, Err(failed)) => failed.outcome = Outcome::Unknown,
            _ => {}
        }
        read
    }
}

impl<W: Weakness> Dedup for Flawed<W> {
    async fn window(client: &Client, stream: &StreamAddress) -> Result<Duration, BackendError> {
        Memory::window(&client.memory, stream).await
    }
}

impl<W: Weakness> AckGroups for Flawed<W> {
    async fn ensure_group(client: &Client, group: &GroupAddress, start: &Start) -> Result<bool, BackendError> {
        match W::FLAW {
            Flaw::ResetsAGroup => {
                Memory::delete_group(&client.memory, group).await?;
            }
            Flaw::StartsAtTheEarliest => {
                return Memory::ensure_group(&client.memory, group, &Start::Earliest).await;
            }
            Flaw::WaitsForAStartBeyondTheEnd => {
                client.shared().starts.insert(group.name().clone(), start.clone());
            }
            _ => {}
        }
        let created = Memory::ensure_group(&client.memory, group, start).await?;
        client.shared().groups.push(group.name().clone());
        Ok(created || W::FLAW == Flaw::SaysItCreated)
    }

    async fn delete_group(client: &Client, group: &GroupAddress) -> Result<bool, BackendError> {
        Memory::delete_group(&client.memory, group).await
    }

    async fn read_new(
        client: &Client,
        group: &GroupAddress,
        consumer: &str,
        max: usize,
        wait: Duration,
    ) -> Result<Read, BackendError> {
        let mut read = Memory::read_new(&client.memory, group, consumer, max, wait).await;
        match (W::FLAW, &mut read) {
            (Flaw::MakesAGroupAgain, Err(failed)) if failed.kind == ErrorKind::Absent => {
                Memory::ensure_group(&client.memory, group, &Start::Latest).await?;
                return Memory::read_new(&client.memory, group, consumer, max, wait).await;
            }
            (Flaw::LosesWhatACancelledReadTook, _) => {
                for _ in 0..3 {
                    yield_now().await;
                }
            }
            (Flaw::JumpsOverWhatIsTrimmed, Ok(Read::Trimmed { .. })) => {
                return Memory::read_new(&client.memory, group, consumer, max, wait).await;
            }
            (Flaw::TellsOfItLate, Ok(_)) => {
                if let Some(untold) = client.shared().untold.pop() {
                    return Ok(untold);
                }
                while let Ok(trimmed @ Read::Trimmed { .. }) = read {
                    client.shared().untold.push(trimmed);
                    read = Memory::read_new(&client.memory, group, consumer, max, wait).await;
                }
            }
            (Flaw::WaitsForAStartBeyondTheEnd, Ok(Read::Records(records))) => {
                if let Some(Start::After(after)) = client.shared().starts.get(group.name()) {
                    let passed =
                        |position: Position| after.get(position.partition()).is_none_or(|after| after < position);
                    records.retain(|stored| passed(stored.position));
                }
            }
            (Flaw::DeliversToTwo, Ok(Read::Records(records))) if !records.is_empty() => {
                let last = records.last().cloned();
                let before = std::mem::replace(&mut client.shared().last_taken, last);
                if let Some(before) = before.filter(|_| records.len() < max) {
                    records.insert(0, before);
                } else if records.len() == max && max > 1 {
                    let first = records[0].clone();
                    client.shared().last_taken = Some(first);
                }
            }
            _ => {}
        }
        read
    }

    async fn history(
        client: &Client,
        group: &GroupAddress,
        consumer: &str,
        after: Option<Position>,
        max: usize,
    ) -> Result<Taken, BackendError> {
        if W::FLAW == Flaw::GivesOthersHistory && after.is_none() {
            return Memory::claim(&client.memory, group, consumer, Duration::ZERO, max).await;
        }
        let mut taken = Memory::history(&client.memory, group, consumer, after, max).await?;
        if W::FLAW == Flaw::HidesWhatIsLost {
            taken.lost.clear();
        }
        Ok(taken)
    }

    async fn ack(client: &Client, group: &GroupAddress, positions: &[Position]) -> Result<u64, BackendError> {
        client.shared().last_acknowledged = positions.iter().copied().max_by_key(|position| position.offset());
        match W::FLAW {
            Flaw::CountsAcksWrong => {
                Memory::ack(&client.memory, group, positions).await?;
                Ok(positions.len() as u64)
            }
            Flaw::ForgetsAcks => {
                let pending = Memory::pending(&client.memory, group, None, ALL).await?;
                Ok(pending.iter().filter(|entry| positions.contains(&entry.position)).count() as u64)
            }
            Flaw::AcksAllUpTo => {
                let pending = Memory::pending(&client.memory, group, None, ALL).await?;
                let covered = |position: &Position| positions.iter().any(|up_to| position <= up_to);
                let all: Vec<_> = pending.iter().map(|entry| entry.position).filter(covered).collect();
                let count = Memory::ack(&client.memory, group, &all).await?;
                Ok(count.min(positions.len() as u64))
            }
            _ => Memory::ack(&client.memory, group, positions).await,
        }
    }

    async fn claim(
        client: &Client,
        group: &GroupAddress,
        consumer: &str,
        idle: Duration,
        max: usize,
    ) -> Result<Taken, BackendError> {
        let idle = if W::FLAW == Flaw::ClaimsWhatIsFresh { Duration::ZERO } else { idle };
        if W::FLAW == Flaw::ClaimsTheNewest {
            // Those that aren't the newest are made to look fresh.
            let pending = Memory::pending(&client.memory, group, None, ALL).await?;
            let old = pending.len().saturating_sub(max);
            for entry in &pending[..old] {
                Memory::extend(&client.memory, group, &entry.consumer, &[entry.position]).await?;
            }
        }
        let mut taken = Memory::claim(&client.memory, group, consumer, idle, max).await?;
        match W::FLAW {
            Flaw::CountsNoClaim => taken.records.iter_mut().for_each(|stored| stored.attempt -= 1),
            Flaw::HidesWhatIsLost => taken.lost.clear(),
            _ => {}
        }
        Ok(taken)
    }

    async fn extend(
        client: &Client,
        group: &GroupAddress,
        consumer: &str,
        positions: &[Position],
    ) -> Result<Vec<Position>, BackendError> {
        let pending = Memory::pending(&client.memory, group, None, ALL).await?;
        let asked = pending.iter().filter(|entry| positions.contains(&entry.position));
        match W::FLAW {
            Flaw::ExtendsForOthers => {
                let mut extended = Vec::new();
                for entry in asked {
                    let one = [entry.position];
                    extended.extend(Memory::extend(&client.memory, group, &entry.consumer, &one).await?);
                }
                Ok(extended)
            }
            Flaw::ExtendsNothing => Ok(asked.filter(|entry| entry.consumer == consumer).map(|e| e.position).collect()),
            _ => Memory::extend(&client.memory, group, consumer, positions).await,
        }
    }

    async fn release(
        client: &Client,
        group: &GroupAddress,
        consumer: &str,
        positions: &[Position],
    ) -> Result<(), BackendError> {
        if W::FLAW == Flaw::KeepsWhatIsReleased {
            return Ok(());
        }
        Memory::release(&client.memory, group, consumer, positions).await
    }

    async fn pending(
        client: &Client,
        group: &GroupAddress,
        after: Option<Position>,
        max: usize,
    ) -> Result<Vec<PendingEntry>, BackendError> {
        let mut pending = Memory::pending(&client.memory, group, after, max).await?;
        if W::FLAW == Flaw::ListsBackwards && pending.len() > 8 {
            pending.reverse();
        } else if W::FLAW == Flaw::ListsBackwards && pending.len() > 1 {
            let last = pending.len() - 1;
            pending[..last].reverse();
        }
        Ok(pending)
    }

    async fn depth(client: &Client, group: &GroupAddress) -> Result<Depth, BackendError> {
        let mut depth = Memory::depth(&client.memory, group).await?;
        if W::FLAW == Flaw::SaysNothingIsUnread {
            depth.unread = Some(0);
        }
        Ok(depth)
    }

    async fn settled(client: &Client, group: &GroupAddress) -> Result<Positions, BackendError> {
        let settled = Memory::settled(&client.memory, group).await?;
        match W::FLAW {
            Flaw::SettlesOverGaps => Ok(client.shared().last_acknowledged.into_iter().collect()),
            Flaw::SettlesNothing => Ok(Positions::new()),
            _ => Ok(settled),
        }
    }

    async fn trim_acknowledged(client: &Client, stream: &StreamAddress) -> Result<u64, BackendError> {
        if W::FLAW == Flaw::TrimsWhatIsPending {
            let all = Memory::read(&client.memory, stream, &Positions::new(), ALL, Duration::ZERO).await?;
            let Read::Records(records) = all else { return Ok(0) };
            return Ok(records.len() as u64);
        }
        Memory::trim_acknowledged(&client.memory, stream).await
    }

    async fn remove_consumer(
        client: &Client,
        group: &GroupAddress,
        consumer: &str,
        heir: Option<&str>,
    ) -> Result<u64, BackendError> {
        if W::FLAW == Flaw::DropsWithTheConsumer && heir.is_some() {
            let pending = Memory::pending(&client.memory, group, None, ALL).await?;
            let own = pending.iter().filter(|entry| entry.consumer == consumer);
            let own: Vec<_> = own.map(|entry| entry.position).collect();
            return Memory::ack(&client.memory, group, &own).await;
        }
        if W::FLAW == Flaw::HidesWhatARemovedConsumerLost && heir.is_some() {
            Memory::history(&client.memory, group, consumer, None, ALL).await?;
        }
        Memory::remove_consumer(&client.memory, group, consumer, heir).await
    }
}

impl<W: Weakness> Subject for Flawed<W> {
    type Backend = Self;

    const PAUSED: bool = true;

    async fn start() -> Self {
        Self { memory: InMemory::start().await, shared: Arc::default(), weakness: PhantomData }
    }

    fn backend(&self) -> Self {
        Self { memory: self.memory.clone(), shared: self.shared.clone(), weakness: PhantomData }
    }

    async fn interrupt(&self) {
        self.memory.interrupt().await;
    }

    async fn refuse(&self, refuse: bool) {
        self.memory.refuse(refuse).await;
    }
}

impl<W: Weakness> Streams for Flawed<W> {
    const TRIMS_FOR_SURE: bool = true;
    const STORAGES: &'static [tidings::Storage] = &[tidings::Storage::Memory];
    const UPDATES: bool = true;

    async fn append_raw(&self, stream: &str, partition: u32, record: Raw) {
        self.memory.append_raw(stream, partition, record).await;
    }

    async fn read_raw(&self, stream: &str, partition: u32) -> Vec<Raw> {
        self.memory.read_raw(stream, partition).await
    }
}

impl<W: Weakness> Network for Flawed<W> {
    async fn silence(&self, silent: bool) {
        self.shared.lock().expect("nobody panicked with it").silent = silent;
    }

    async fn lose_replies(&self, lose: bool) {
        self.shared.lock().expect("nobody panicked with it").lose_replies = lose;
    }

    async fn subscribed_connections(&self) -> usize {
        0
    }
}

struct Honest;

impl Weakness for Honest {
    const FLAW: Flaw = Flaw::Nothing;
}

conformance::streams!(honest, Flawed<Honest>, ack_groups, dedup, network);

macro_rules! weaknesses {
    ($($name:ident: $flaw:ident fails $property:ident, $sentence:literal;)+) => {
        $(
            #[test]
            fn $name() {
                struct It;
                impl Weakness for It {
                    const FLAW: Flaw = Flaw::$flaw;
                }
                must_fail($sentence, || conformance::run(conformance::$property::<Flawed<It>>));
            }
        )+
    };
}

weaknesses! {
    drops_a_record: DropsARecord fails append_recorded, "append-recorded";
    answers_before_it_records: AnswersBeforeItRecords fails append_recorded, "append-recorded";
    stores_a_record_twice: StoresARecordTwice fails append_recorded, "append-recorded";
    gives_falling_positions: GivesFallingPositions fails append_recorded, "append-recorded";
    promises_replicas_that_it_lacks: PromisesReplicas fails append_recorded, "append-recorded";
    drops_a_record_of_many: DropsARecord fails append_order, "append-order";
    reverses_a_batch: ReversesABatch fails append_all, "append-all";
    stops_in_a_batch: StopsABatch fails append_all, "append-all";
    gives_one_id_to_all: SharesIds fails append_id, "append-id";
    loses_the_key: LosesTheKey fails stream_keys, "stream-keys";
    loses_the_key_on_the_wire: LosesTheKey fails stream_wire, "stream-wire";
    loses_a_header: LosesAHeader fails headers, "headers";
    mangles_payloads: ManglesPayloads fails stream_wire, "stream-wire";
    creates_on_append: CreatesOnAppend fails stream_ensure, "stream-ensure";
    accepts_other_settings: AcceptsOtherSettings fails stream_ensure, "stream-ensure";
    forgets_a_change: ForgetsAChange fails stream_update, "stream-update";
    changes_by_making_anew: ChangesByMakingAnew fails stream_update, "stream-update";
    creates_on_update: CreatesOnUpdate fails stream_update, "stream-update";
    jumps_over_what_is_trimmed: JumpsOverWhatIsTrimmed fails read_trimmed, "read-after";
    jumps_in_a_group: JumpsOverWhatIsTrimmed fails ack_trimmed, "read-after";
    jumps_in_a_group_of_many: JumpsOverWhatIsTrimmed fails ack_trimmed_partitions, "read-after";
    tells_of_it_late: TellsOfItLate fails ack_trimmed_partitions, "read-after";
    jumps_in_a_tail: JumpsOverWhatIsTrimmed fails tail_trimmed, "tail";
    starts_at_the_end_each_time: StartsAtTheEndEachTime fails tail, "tail";
    reads_inclusively: ReadsInclusively fails read_after, "read-after";
    reads_partitions_inclusively: ReadsInclusively fails read_partitions, "read-after";
    reads_on_inclusively: ReadsInclusively fails positions, "positions";
    drops_poison: DropsPoison fails poison_in_place, "poison-in-place";
    does_not_wait: DoesNotWait fails read_waits, "read-after";
    waits_too_long: WaitsTooLong fails read_waits, "read-after";
    ignores_a_close: IgnoresAClose fails stream_close, "close-waits";
    doubts_what_never_happened: DoubtsWhatNeverHappened fails stream_refused, "stream-refused";
    waits_for_a_time_to_come: WaitsForATimeToCome fails tail, "tail";
    loses_what_a_cancelled_read_took: LosesWhatACancelledReadTook fails ack_cancelled, "read-cancelled";
    delivers_to_two_consumers: DeliversToTwo fails ack_competing, "ack-competing";
    resets_a_group: ResetsAGroup fails ack_group_ensure, "ack-group-ensure";
    says_that_it_created_what_was_there: SaysItCreated fails ack_group_ensure, "ack-group-ensure";
    starts_every_group_at_the_earliest: StartsAtTheEarliest fails ack_starts, "ack-group-ensure";
    waits_for_a_start_beyond_the_end: WaitsForAStartBeyondTheEnd fails ack_starts, "ack-group-ensure";
    counts_acks_wrong: CountsAcksWrong fails ack_recorded, "ack-recorded";
    forgets_acks: ForgetsAcks fails ack_recorded, "ack-recorded";
    acknowledges_all_up_to_one: AcksAllUpTo fails ack_recorded, "ack-recorded";
    claims_what_is_fresh: ClaimsWhatIsFresh fails ack_claim, "ack-claim";
    counts_no_claim: CountsNoClaim fails ack_claim, "ack-claim";
    claims_the_newest_first: ClaimsTheNewest fails ack_claim, "ack-claim";
    hides_what_a_claim_lost: HidesWhatIsLost fails ack_claim_lost, "ack-claim";
    lists_backwards: ListsBackwards fails ack_pending, "ack-pending";
    gives_others_entries_as_history: GivesOthersHistory fails history, "ack-history";
    follows_others_entries: GivesOthersHistory fails ack_follow, "ack-follow";
    keeps_what_is_released: KeepsWhatIsReleased fails ack_release, "ack-release";
    extends_for_others: ExtendsForOthers fails ack_extend, "ack-extend";
    extends_nothing: ExtendsNothing fails ack_extend, "ack-extend";
    settles_over_gaps: SettlesOverGaps fails ack_settled, "ack-settled";
    settles_nothing: SettlesNothing fails ack_settled, "ack-settled";
    trims_what_is_pending: TrimsWhatIsPending fails trim_acknowledged, "ack-trim";
    drops_what_a_removed_consumer_had: DropsWithTheConsumer fails ack_remove_consumer, "ack-remove-consumer";
    hides_what_a_removed_consumer_lost: HidesWhatARemovedConsumerLost fails ack_claim_lost, "ack-claim";
    makes_a_lost_group_again: MakesAGroupAgain fails ack_group_lost, "ack-group-lost";
    says_that_nothing_is_unread: SaysNothingIsUnread fails ack_depth, "ack-depth";
    extends_the_window: ExtendsTheWindow fails dedup_window, "append-dedup";
    forgets_ids: ForgetsIds fails append_dedup, "append-dedup";
    stores_a_duplicate: StoresADuplicate fails append_dedup, "append-dedup";
    moves_a_duplicate: MovesADuplicate fails append_dedup, "append-dedup";
    shares_ids_among_streams: SharesIdsAmongStreams fails append_dedup, "append-dedup";
    retries_an_append_without_a_reply: RetriesAnAppend fails append_lost_reply, "append-recorded";
    says_not_applied_without_a_reply: DeniesALostReply fails append_lost_reply, "append-recorded";
    waits_for_a_silent_peer: WaitsForSilence fails append_silent, "append-recorded";
}
