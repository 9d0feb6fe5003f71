//! Memory's commit groups and units, with a weakness of choice.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidings::backend::Memory;
use tidings::capability::{
    Backend, BackendError, Checked, CommitGroups, Fetched, GroupAddress, GroupMember, Host, Log, Read, Record, Stored,
    StreamAddress, Transactions, Unit, Wanted,
};
use tidings::conformance::{self, InMemory, Raw, Streams, Subject};
use tidings::{Durability, ErrorKind, Lag, MemberSettings, Position, Positions, Receipt, Start, StreamSettings};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::must_fail;

/// What is wrong with a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    Nothing,
    CommitsBackwards,
    CommitsTheFirstOfSeveral,
    CommitsOneTooLow,
    CommitsOneTooHigh,
    ForgetsCommits,
    AcceptsLateCommits,
    FailsAWholeCommit,
    SkipsTheFirstRecord,
    BeginsAtTheEnd,
    GoesOnWhereItWas,
    RewindsNothing,
    MovesAtOnce,
    NeverTakes,
    HandsNothingOver,
    SharesPartitions,
    ForgetsNames,
    PausesNothing,
    NeverLeaves,
    DropsTheSlow,
    CountsBelowNothing,
    CountsWhatIsGone,
    ResetsWithMembers,
    ResetsOneTooHigh,
    MakesAStream,
    MakesAGroup,
    RecordsTheStartLate,
    ResetsAGroup,
    SaysItRecorded,
    ForgetsWhatIsTrimmed,
    HidesALostStream,
    SaysItIsInReach,
    DropsPoison,
    LosesWhatACancelledReadTook,
    StaysAfterAClose,
    ForgetsTheCommitOfAUnit,
    ForgetsTheAppendsOfAUnit,
    RecordsAUnitApart,
    RecordsAUnitLate,
}

/// Chooses a flaw by a type.
trait Weakness: Send + Sync + 'static {
    const FLAW: Flaw;
}

#[derive(Default)]
struct Shared {
    /// What was committed last, by group.
    committed: HashMap<Arc<str>, Positions>,
    /// The groups of which nothing is recorded yet, though it was said.
    late: Vec<Arc<str>>,
}

struct Flawed<W> {
    memory: InMemory,
    shared: Arc<Mutex<Shared>>,
    weakness: PhantomData<fn() -> W>,
}

type Inner = <Memory as Backend>::Client;

struct Client {
    memory: Inner,
    shared: Arc<Mutex<Shared>>,
}

struct Member<W> {
    inner: <Memory as CommitGroups>::Member,
    memory: Inner,
    shared: Arc<Mutex<Shared>>,
    stream: Arc<StreamAddress>,
    group: Arc<str>,
    state: Mutex<State>,
    weakness: PhantomData<fn() -> W>,
}

struct State {
    /// The partitions whose next record is their first.
    fresh: Vec<u32>,
    /// Up to where nothing of a partition is given.
    skipped: BTreeMap<u32, u128>,
    given: Positions,
    asked: Instant,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panicked with it")
}

fn moved(position: Position, by: i8) -> Position {
    Position::new(position.partition(), position.offset().saturating_add_signed(by.into()))
}

impl<W: Weakness> Backend for Flawed<W> {
    type Client = Client;

    fn system(&self) -> &'static str {
        "flawed"
    }

    fn client(&self, host: Host) -> Result<Client, Vec<String>> {
        Ok(Client { memory: self.memory.backend().client(host)?, shared: self.shared.clone() })
    }

    async fn check(client: &Client, wanted: Wanted) -> Result<Checked, BackendError> {
        Memory::check(&client.memory, wanted).await
    }

    async fn close(client: &Client) {
        if W::FLAW != Flaw::StaysAfterAClose {
            Memory::close(&client.memory).await;
        }
    }
}

impl<W: Weakness> Log for Flawed<W> {
    fn admits(client: &Client, stream: &StreamAddress, durability: Durability) -> Result<(), String> {
        Memory::admits(&client.memory, stream, durability)
    }

    async fn ensure(client: &Client, stream: &StreamAddress, settings: &StreamSettings) -> Result<(), BackendError> {
        Memory::ensure(&client.memory, stream, settings).await
    }

    async fn delete(client: &Client, stream: &StreamAddress) -> Result<bool, BackendError> {
        *locked(&client.shared) = Shared::default();
        Memory::delete(&client.memory, stream).await
    }

    async fn append(
        client: &Client,
        stream: &StreamAddress,
        record: Record,
        durability: Durability,
    ) -> Result<Receipt, BackendError> {
        Memory::append(&client.memory, stream, record, durability).await
    }

    async fn append_all(
        client: &Client,
        stream: &StreamAddress,
        records: Vec<Record>,
        durability: Durability,
    ) -> Vec<Result<Receipt, BackendError>> {
        Memory::append_all(&client.memory, stream, records, durability).await
    }

    async fn start(client: &Client, stream: &StreamAddress, start: &Start) -> Result<Positions, BackendError> {
        Memory::start(&client.memory, stream, start).await
    }

    async fn read(
        client: &Client,
        stream: &StreamAddress,
        after: &Positions,
        max: usize,
        wait: Duration,
    ) -> Result<Read, BackendError> {
        Memory::read(&client.memory, stream, after, max, wait).await
    }
}

impl<W: Weakness> Flawed<W> {
    /// Records the start that was only promised.
    async fn catch_up(client: &Client, group: &GroupAddress) -> Result<(), BackendError> {
        let late = {
            let mut shared = locked(&client.shared);
            let before = shared.late.len();
            shared.late.retain(|name| name != group.name());
            shared.late.len() < before
        };
        if late {
            Memory::ensure_commit_group(&client.memory, group, &Start::Latest).await?;
        }
        Ok(())
    }
}

impl<W: Weakness> CommitGroups for Flawed<W> {
    type Member = Member<W>;

    async fn ensure_commit_group(client: &Client, group: &GroupAddress, start: &Start) -> Result<bool, BackendError> {
        if W::FLAW == Flaw::ResetsAGroup {
            drop(Memory::reset_offsets(&client.memory, group, start).await);
        }
        let is_late = W::FLAW == Flaw::RecordsTheStartLate && *start == Start::Latest;
        if is_late && Memory::committed(&client.memory, group).await.is_err() {
            locked(&client.shared).late.push(group.name().clone());
            return Ok(true);
        }
        let recorded = Memory::ensure_commit_group(&client.memory, group, start).await?;
        Ok(recorded || W::FLAW == Flaw::SaysItRecorded)
    }

    async fn delete_commit_group(client: &Client, group: &GroupAddress) -> Result<bool, BackendError> {
        Memory::delete_commit_group(&client.memory, group).await
    }

    async fn join(client: &Client, group: &GroupAddress, settings: &MemberSettings) -> Result<Member<W>, BackendError> {
        let mut settings = settings.clone();
        match W::FLAW {
            Flaw::MovesAtOnce => settings.hand_over = Duration::ZERO,
            Flaw::NeverTakes => settings.hand_over = Duration::from_mins(5),
            Flaw::ForgetsNames => settings.name = None,
            _ => {}
        }
        Self::catch_up(client, group).await?;
        let mut joined = Memory::join(&client.memory, group, &settings).await;
        let absent = joined.as_ref().is_err_and(|failed| failed.kind == ErrorKind::Absent);
        if absent && matches!(W::FLAW, Flaw::MakesAStream | Flaw::MakesAGroup) {
            if W::FLAW == Flaw::MakesAStream {
                Memory::ensure(&client.memory, group.stream(), &StreamSettings::new()).await?;
            }
            Memory::ensure_commit_group(&client.memory, group, &Start::Earliest).await?;
            joined = Memory::join(&client.memory, group, &settings).await;
        }
        let given = Memory::committed(&client.memory, group).await?;
        let state = State { fresh: Vec::new(), skipped: BTreeMap::new(), given, asked: Instant::now() };
        Ok(Member {
            inner: joined?,
            memory: client.memory.clone(),
            shared: client.shared.clone(),
            stream: group.stream().clone(),
            group: group.name().clone(),
            state: Mutex::new(state),
            weakness: PhantomData,
        })
    }

    async fn committed(client: &Client, group: &GroupAddress) -> Result<Positions, BackendError> {
        Self::catch_up(client, group).await?;
        let committed = Memory::committed(&client.memory, group).await?;
        let last = locked(&client.shared).committed.get(group.name()).cloned();
        Ok(if W::FLAW == Flaw::CommitsBackwards { last.unwrap_or(committed) } else { committed })
    }

    async fn reset_offsets(client: &Client, group: &GroupAddress, to: &Start) -> Result<Positions, BackendError> {
        let mut to = to.clone();
        if let (Flaw::ResetsOneTooHigh, Start::After(positions)) = (W::FLAW, &mut to) {
            *positions = positions.iter().map(|position| moved(position, 1)).collect();
        }
        let moved = Memory::reset_offsets(&client.memory, group, &to).await;
        match moved {
            Err(failed) if failed.kind == ErrorKind::Conflict && W::FLAW == Flaw::ResetsWithMembers => {
                Memory::committed(&client.memory, group).await
            }
            moved => moved,
        }
    }

    async fn lag(client: &Client, group: &GroupAddress) -> Result<Vec<Lag>, BackendError> {
        Self::catch_up(client, group).await?;
        let mut lag = Memory::lag(&client.memory, group).await?;
        let end = Memory::start(&client.memory, group.stream(), &Start::Latest).await?;
        for lag in &mut lag {
            match W::FLAW {
                Flaw::CountsBelowNothing if lag.records == 0 && lag.committed.is_some() => lag.records = u64::MAX,
                Flaw::CountsWhatIsGone => {
                    let offset = |position: Option<Position>| position.map_or(0, Position::offset);
                    let records = offset(end.get(lag.partition)).saturating_sub(offset(lag.committed));
                    lag.records = u64::try_from(records).unwrap_or(u64::MAX);
                }
                _ => {}
            }
        }
        Ok(lag)
    }
}

impl<W: Weakness> Member<W> {
    /// Reads whatever there is, whoever has it.
    async fn read_all(&self, max: usize, wait: Duration) -> Result<Fetched, BackendError> {
        let after = locked(&self.state).given.clone();
        match Memory::read(&self.memory, &self.stream, &after, max, wait).await? {
            Read::Records(records) => {
                locked(&self.state).given.extend(records.iter().map(|stored| stored.position));
                Ok(Fetched::Records(records))
            }
            Read::Trimmed { first, .. } => Ok(Fetched::Trimmed { after: None, first }),
        }
    }

    async fn assigned_to_it(&self, partitions: &[u32]) -> Result<(), BackendError> {
        let latest = Memory::start(&self.memory, &self.stream, &Start::Latest).await?;
        let mut state = locked(&self.state);
        state.fresh.extend(partitions);
        for partition in partitions {
            let skipped = match W::FLAW {
                Flaw::BeginsAtTheEnd => latest.get(*partition),
                Flaw::GoesOnWhereItWas => state.given.get(*partition),
                _ => None,
            };
            state.skipped.extend(skipped.map(|position| (*partition, position.offset())));
        }
        Ok(())
    }

    /// What is given of these records.
    fn given(&self, records: Vec<Stored>) -> Vec<Stored> {
        let mut state = locked(&self.state);
        let mut given = Vec::new();
        for stored in records {
            let (partition, offset) = (stored.position.partition(), stored.position.offset());
            let first = state.fresh.contains(&partition);
            state.fresh.retain(|fresh| *fresh != partition);
            let poison = !stored.record.data.starts_with(b"{");
            let dropped = (first && W::FLAW == Flaw::SkipsTheFirstRecord)
                || state.skipped.get(&partition).is_some_and(|skipped| offset <= *skipped)
                || (poison && W::FLAW == Flaw::DropsPoison);
            if !dropped {
                state.given.advance(stored.position);
                given.push(stored);
            }
        }
        given
    }
}

impl<W: Weakness> GroupMember for Member<W> {
    async fn next(&self, max: usize, wait: Duration) -> Result<Fetched, BackendError> {
        locked(&self.state).asked = Instant::now();
        if W::FLAW == Flaw::SharesPartitions {
            return self.read_all(max, wait).await;
        }
        match self.inner.next(max, wait).await {
            Ok(Fetched::Assigned(partitions)) => {
                self.assigned_to_it(&partitions).await?;
                Ok(Fetched::Assigned(partitions))
            }
            Ok(Fetched::Records(records)) => {
                if W::FLAW == Flaw::LosesWhatACancelledReadTook {
                    for _ in 0..3 {
                        yield_now().await;
                    }
                }
                Ok(Fetched::Records(self.given(records)))
            }
            Ok(Fetched::Trimmed { .. }) if W::FLAW == Flaw::ForgetsWhatIsTrimmed => {
                let fetched = self.inner.next(max, Duration::ZERO).await?;
                Ok(fetched)
            }
            Err(failed) if failed.kind == ErrorKind::Absent && W::FLAW == Flaw::HidesALostStream => {
                sleep(wait).await;
                Ok(Fetched::Records(Vec::new()))
            }
            Err(failed) if failed.kind == ErrorKind::Unavailable && W::FLAW == Flaw::SaysItIsInReach => {
                sleep(wait).await;
                Ok(Fetched::Records(Vec::new()))
            }
            fetched => fetched,
        }
    }

    async fn joined(&self) -> Result<(), BackendError> {
        if W::FLAW == Flaw::SaysItIsInReach {
            return Ok(());
        }
        self.inner.joined().await
    }

    async fn commit(&self, positions: &Positions) -> Result<Vec<u32>, BackendError> {
        if W::FLAW == Flaw::SaysItIsInReach {
            // As a network does, it fails after a while.
            sleep(Duration::from_millis(10)).await;
        }
        locked(&self.shared).committed.entry(self.group.clone()).or_default().clone_from(positions);
        let changed = match W::FLAW {
            Flaw::CommitsOneTooLow => positions.iter().map(|position| moved(position, -1)).collect(),
            Flaw::CommitsOneTooHigh => positions.iter().map(|position| moved(position, 1)).collect(),
            Flaw::CommitsTheFirstOfSeveral => positions.iter().take(1).collect(),
            Flaw::ForgetsCommits => Positions::new(),
            Flaw::FailsAWholeCommit => {
                let own = self.inner.assigned();
                let others: Vec<u32> =
                    positions.iter().map(Position::partition).filter(|at| !own.contains(at)).collect();
                if !others.is_empty() {
                    return Ok(others);
                }
                positions.clone()
            }
            _ => positions.clone(),
        };
        let others = self.inner.commit(&changed).await?;
        Ok(if W::FLAW == Flaw::AcceptsLateCommits { Vec::new() } else { others })
    }

    fn hand_over(&self, partitions: &[u32]) {
        if W::FLAW != Flaw::HandsNothingOver {
            self.inner.hand_over(partitions);
        }
    }

    async fn rewind(&self) -> Result<(), BackendError> {
        if W::FLAW == Flaw::RewindsNothing {
            return Ok(());
        }
        self.inner.rewind().await
    }

    fn pause(&self, partitions: &[u32], paused: bool) {
        if W::FLAW != Flaw::PausesNothing {
            self.inner.pause(partitions, paused);
        }
    }

    fn assigned(&self) -> Vec<u32> {
        if W::FLAW == Flaw::DropsTheSlow && locked(&self.state).asked.elapsed() > Duration::from_mins(5) {
            return Vec::new();
        }
        self.inner.assigned()
    }

    fn id(&self) -> u64 {
        self.inner.id()
    }

    async fn leave(self) {
        if W::FLAW == Flaw::NeverLeaves {
            std::mem::forget(self.inner);
        } else {
            self.inner.leave().await;
        }
    }
}

impl<W: Weakness> Transactions for Flawed<W> {
    async fn record(client: &Client, mut unit: Unit) -> Result<Vec<Receipt>, BackendError> {
        match W::FLAW {
            Flaw::ForgetsTheCommitOfAUnit => unit.settlements.clear(),
            Flaw::ForgetsTheAppendsOfAUnit => {
                let count = unit.appends.len();
                unit.appends.clear();
                Memory::record(&client.memory, unit).await?;
                return Ok((1..).take(count).map(|at| Receipt::new(Some(Position::new(0, at)), false)).collect());
            }
            Flaw::RecordsAUnitApart => {
                let mut receipts = Vec::new();
                for (stream, record) in std::mem::take(&mut unit.appends) {
                    receipts.push(Memory::append(&client.memory, &stream, record, Durability::Primary).await?);
                    yield_now().await;
                }
                Memory::record(&client.memory, unit).await?;
                return Ok(receipts);
            }
            Flaw::RecordsAUnitLate => {
                // Its commit, and after a while its appends.
                let mut appends = Unit::default();
                std::mem::swap(&mut appends.appends, &mut unit.appends);
                Memory::record(&client.memory, unit).await?;
                yield_now().await;
                return Memory::record(&client.memory, appends).await;
            }
            _ => {}
        }
        Memory::record(&client.memory, unit).await
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

    async fn append_raw(&self, stream: &str, partition: u32, record: Raw) {
        self.memory.append_raw(stream, partition, record).await;
    }

    async fn read_raw(&self, stream: &str, partition: u32) -> Vec<Raw> {
        self.memory.read_raw(stream, partition).await
    }
}

struct Honest;

impl Weakness for Honest {
    const FLAW: Flaw = Flaw::Nothing;
}

conformance::streams!(honest, Flawed<Honest>, commit_groups, transactions);
conformance::commit_workers!(honest_workers, Flawed<Honest>);

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
    commits_backwards: CommitsBackwards fails commit_high_water, "commit-high-water";
    commits_the_first_of_several_partitions: CommitsTheFirstOfSeveral fails commit_high_water, "commit-high-water";
    commits_one_too_low: CommitsOneTooLow fails commit_high_water, "commit-high-water";
    commits_one_too_high: CommitsOneTooHigh fails commit_high_water, "commit-high-water";
    forgets_commits: ForgetsCommits fails commit_high_water, "commit-high-water";
    skips_the_first_record: SkipsTheFirstRecord fails commit_high_water, "commit-high-water";
    rewinds_nothing: RewindsNothing fails commit_rewind, "commit-rewind";
    accepts_late_commits: AcceptsLateCommits fails commit_rebalance, "commit-rebalance";
    fails_a_whole_commit: FailsAWholeCommit fails commit_rebalance, "commit-rebalance";
    skips_the_first_record_of_a_new_owner: SkipsTheFirstRecord fails commit_rebalance, "commit-rebalance";
    begins_at_the_end: BeginsAtTheEnd fails commit_rebalance, "commit-rebalance";
    begins_at_the_end_after_a_reset: BeginsAtTheEnd fails commit_reset, "commit-reset";
    shares_partitions: SharesPartitions fails commit_rebalance, "commit-rebalance";
    moves_partitions_at_once: MovesAtOnce fails commit_rebalance, "commit-rebalance";
    takes_what_is_being_handed_over: MovesAtOnce fails commit_hand_over, "commit-rebalance";
    never_takes_what_is_not_handed_over: NeverTakes fails commit_hand_over, "commit-rebalance";
    hands_nothing_over: HandsNothingOver fails commit_rebalance, "commit-rebalance";
    goes_on_where_it_was: GoesOnWhereItWas fails commit_returns, "commit-rebalance";
    loses_records_while_members_come_and_go: SkipsTheFirstRecord fails commit_churn, "commit-rebalance";
    repeats_records_while_members_come_and_go: CommitsOneTooLow fails commit_churn, "commit-rebalance";
    forgets_names: ForgetsNames fails commit_names, "commit-names";
    drops_a_slow_member: DropsTheSlow fails commit_kept, "commit-kept";
    counts_below_nothing: CountsBelowNothing fails commit_lag, "commit-lag";
    counts_what_is_gone: CountsWhatIsGone fails commit_lag, "commit-lag";
    resets_with_members: ResetsWithMembers fails commit_reset, "commit-reset";
    resets_one_too_high: ResetsOneTooHigh fails commit_reset, "commit-reset";
    makes_a_stream: MakesAStream fails commit_no_create, "commit-no-create";
    makes_a_group: MakesAGroup fails commit_no_create, "commit-no-create";
    records_the_start_late: RecordsTheStartLate fails commit_starts, "commit-group-ensure";
    resets_a_group: ResetsAGroup fails commit_group_ensure, "commit-group-ensure";
    says_that_it_recorded_what_was_there: SaysItRecorded fails commit_group_ensure, "commit-group-ensure";
    forgets_what_is_trimmed: ForgetsWhatIsTrimmed fails commit_trimmed, "commit-trimmed";
    hides_a_lost_stream: HidesALostStream fails commit_group_lost, "commit-group-lost";
    drops_poison: DropsPoison fails commit_poison, "poison-in-place";
    loses_what_a_cancelled_read_took: LosesWhatACancelledReadTook fails commit_cancelled, "read-cancelled";
    stays_after_a_close: StaysAfterAClose fails commit_close, "close-waits";
    forgets_the_commit_of_a_unit: ForgetsTheCommitOfAUnit fails unit_atomic, "unit-atomic";
    forgets_the_appends_of_a_unit: ForgetsTheAppendsOfAUnit fails unit_atomic, "unit-atomic";
    records_a_unit_apart: RecordsAUnitApart fails unit_refused, "unit-atomic";
    shows_a_part_of_a_unit: RecordsAUnitApart fails unit_atomic, "unit-atomic";
    repeats_what_a_dropped_unit_appended: RecordsAUnitApart fails unit_once, "unit-atomic";
    loses_what_a_dropped_unit_appended: RecordsAUnitLate fails unit_once, "unit-atomic";
    skips_a_workers_first_record: SkipsTheFirstRecord fails commit_worker_order, "worker-order";
    begins_at_the_end_for_a_worker: BeginsAtTheEnd fails commit_worker_order, "worker-order";
    forgets_a_workers_commits: ForgetsCommits fails commit_worker_order, "worker-order";
    commits_a_workers_unfinished_record: CommitsOneTooHigh fails commit_worker_progress, "worker-settle";
    commits_a_workers_record_too_few: CommitsOneTooLow fails commit_worker_progress, "worker-settle";
    pauses_nothing: PausesNothing fails commit_worker_held_up, "worker-bounded";
    keeps_a_workers_place: NeverLeaves fails commit_worker_stop, "worker-stop";
    forgets_a_workers_commits_at_a_stop: ForgetsCommits fails commit_worker_stop, "worker-stop";
    moves_a_workers_partitions_at_once: MovesAtOnce fails commit_worker_moves, "worker-rebalance";
    hands_no_partition_of_a_worker_over: HandsNothingOver fails commit_worker_moves, "worker-rebalance";
    shares_partitions_among_workers: SharesPartitions fails commit_worker_churn, "worker-rebalance";
    forgets_a_workers_name: ForgetsNames fails commit_worker_settings, "worker-settings";
    hides_what_is_trimmed_from_a_worker: ForgetsWhatIsTrimmed fails commit_worker_trimmed, "commit-trimmed";
    hides_a_lost_stream_from_a_worker: HidesALostStream fails commit_worker_stream_lost, "commit-group-lost";
    says_that_it_is_in_reach_to_a_worker: SaysItIsInReach fails commit_worker_gap, "worker-gap";
}
