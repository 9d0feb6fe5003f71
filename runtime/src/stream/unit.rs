//! Units: appends and settlements that are recorded whole or not at all.

use std::fmt;
use std::sync::Arc;

use super::{AckGroup, Append, KeyedStream, Member, Position, Positions, Receipt, Stream};
use crate::broker::Broker;
use crate::call::Call;
use crate::capability::{
    self, AckGroups, Backend, Capability, CommitGroups, GroupMember, Record, Settlement, Transactions,
};
use crate::codec::Encode;
use crate::declaration::{StreamKeyed, StreamSpec};
use crate::error::{Error, ErrorKind, Operation};
use crate::key::TopicKey;
use crate::telemetry;

impl<B: Backend> Broker<B> {
    /// Begins a unit: appends to any of the broker's streams and settlements, which [`record`](Unit::record) records whole
    /// or not at all. Nothing is sent before.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidings::{Broker, Config, MemberSettings, Namespace, Start, StreamSettings, backend::Memory, stream_spec};
    /// # #[stream_spec(name = "shop.orders", version = 1, key = u64, requires(commit_groups, transactions))]
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Order { cents: i64 }
    /// # #[stream_spec(name = "shop.totals", version = 1, key = u64)]
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Total { cents: i64 }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
    /// # let broker = Broker::new(Memory::new(), Config::new(Namespace::new("shop", "test")?))?;
    /// # let (orders, totals) = (Order::stream(&broker)?, Total::stream(&broker)?);
    /// # orders.ensure(StreamSettings::new()).await?;
    /// # totals.ensure(StreamSettings::new()).await?;
    /// # let group = orders.commit_group("reports")?;
    /// # group.ensure(Start::Earliest).await?;
    /// # orders.append(&7, &Order { cents: 990 }).await?;
    /// let member = group.join(MemberSettings::new()).await?;
    /// let read = member.read(100, Duration::from_secs(1)).await?;
    /// let positions: Vec<_> = read.iter().map(|delivery| delivery.position()).collect();
    /// let total = Total { cents: read.iter().filter_map(|one| one.value().ok()).map(|order| order.cents).sum() };
    /// // The total is there and the orders are committed, or neither.
    /// broker.unit().append(&totals, (&7, &total)).commit(&member, positions).record().await?;
    /// # assert_eq!(group.lag().await?[0].records, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unit(&self) -> Unit<B>
    where
        B: Transactions,
    {
        Unit { broker: self.clone(), inner: capability::Unit::default(), wrong: None }
    }
}

/// A unit in the making: what [`Broker::unit`] returns.
///
/// What can't be part of it, an entry that doesn't encode say, is told by [`record`](Self::record), and nothing is recorded.
#[must_use = "nothing of it is recorded until `record` is awaited"]
pub struct Unit<B: Backend> {
    broker: Broker<B>,
    inner: capability::Unit,
    /// The first thing that can't be part of it.
    wrong: Option<Error>,
}

impl<B: Transactions> Unit<B> {
    /// Adds an append: a pair `(&key, &entry)` or an [`Append`].
    pub fn append<'e, T>(self, stream: &Stream<T, B>, append: impl Into<Append<&'e T::Key, &'e T>>) -> Self
    where
        T: StreamSpec + 'e,
        T::Codec: Encode<T>,
    {
        let record = stream.encode_with(append.into(), TopicKey::write);
        self.push(stream, record)
    }

    /// Adds an append of an entry that holds its own key.
    pub fn append_keyed<'e, T>(self, stream: &KeyedStream<T, B>, append: impl Into<Append<(), &'e T>>) -> Self
    where
        T: StreamKeyed + 'e,
        T::Codec: Encode<T>,
    {
        let append = append.into();
        let entry = append.entry();
        let record = stream.encode_with(append, |(), to| entry.write_stream_key(to));
        self.push(stream, record)
    }

    fn push<T: StreamSpec>(mut self, stream: &Stream<T, B>, record: Result<Record, Error>) -> Self {
        match self.own(stream).and(record) {
            Ok(record) => self.inner.appends.push((stream.bound.address.clone(), record)),
            Err(error) => self.refuse(error),
        }
        self
    }

    /// Adds what a member has handled: everything up to each position on its partition, as
    /// [`Member::commit`] does.
    pub fn commit<T: StreamSpec>(mut self, member: &Member<T, B>, positions: impl IntoIterator<Item = Position>) -> Self
    where
        B: CommitGroups,
    {
        let positions: Positions = positions.into_iter().collect();
        if positions.is_empty() {
            return self;
        }
        match self.own(member.group().stream()).and_then(|()| member.were_given(&positions)) {
            Ok(()) => self.inner.settlements.push(Settlement::Commit {
                group: member.group().bound.address.clone(),
                member: member.inner().id(),
                positions,
            }),
            Err(error) => self.refuse(error),
        }
        self
    }

    /// Adds entries of an ack group that are acknowledged.
    pub fn ack<T: StreamSpec>(mut self, group: &AckGroup<T, B>, positions: impl IntoIterator<Item = Position>) -> Self
    where
        B: AckGroups,
    {
        let mut positions: Vec<Position> = positions.into_iter().collect();
        positions.sort_unstable_by_key(|position| (position.partition(), position.offset()));
        positions.dedup();
        if positions.is_empty() {
            return self;
        }
        match self.own(group.stream()) {
            Ok(()) => {
                self.inner.settlements.push(Settlement::Ack { group: group.bound.address.clone(), positions });
            }
            Err(error) => self.refuse(error),
        }
        self
    }

    /// Records the unit, and returns a receipt for each append in order. An empty unit does nothing.
    ///
    /// Readers of the streams see all of it or nothing, on Kafka a moment after this has returned.
    ///
    /// # Errors
    ///
    /// `Revoked` where a partition that it commits isn't the member's any longer, `Fenced` where another producer of this
    /// identity has taken over, `Absent` where a stream or group isn't there, `Encode`, `TooLarge`, `Invalid` (also for a
    /// stream of another broker and more than `batch_messages` appends), `Unsupported` for a settlement that the backend
    /// can't have in a unit. After these nothing is recorded. `Timeout`, `Unavailable`, `Refused`, `Forbidden`,
    /// `Overloaded` and `Closed` say by their [`outcome`](Error::outcome) whether it may be; then the group's
    /// [`committed`](crate::CommitGroup::committed) positions tell.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the unit is recorded whole or not at all.
    pub fn record(self) -> Call<'static, Vec<Receipt>> {
        Call::new(async move {
            let Self { broker, inner: unit, wrong } = self;
            let inner = &*broker.inner;
            let error = |kind| Error::new(kind, Operation::Record).on(inner.system);
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
            inner.has(&[Capability::Transactions]).map_err(|lacking| error(ErrorKind::Unsupported).detail(lacking))?;
            if unit.appends.is_empty() && unit.settlements.is_empty() {
                return Ok(Vec::new());
            }
            let (count, most) = (unit.appends.len(), inner.host.limits().batch_messages);
            if count > most {
                let detail = format!("{count} appends; `batch_messages` is {most}, so record several units");
                return Err(error(ErrorKind::Invalid).detail(detail));
            }
            let recording = async {
                let _place = inner.host.shared().admit().await.map_err(error)?;
                let recorded = B::record(&inner.client, unit).await;
                recorded.map_err(|failed| Error::of_backend(failed, Operation::Record).on(inner.system))
            };
            telemetry::unit(inner.system, count, recording).await
        })
    }

    /// Refuses a stream of another broker, whose records can't be part of the same unit.
    fn own<T: StreamSpec>(&self, stream: &Stream<T, B>) -> Result<(), Error> {
        if Arc::ptr_eq(&self.broker.inner, &stream.broker.inner) {
            return Ok(());
        }
        let detail = "it is bound to another broker than the unit; bind it to the same";
        Err(stream.error(ErrorKind::Invalid, Operation::Record).detail(detail))
    }

    fn refuse(&mut self, error: Error) {
        self.wrong.get_or_insert(error);
    }
}

impl<B: Backend> fmt::Debug for Unit<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unit")
            .field("backend", &self.broker.inner.system)
            .field("appends", &self.inner.appends.len())
            .field("settlements", &self.inner.settlements.len())
            .field("wrong", &self.wrong)
            .finish()
    }
}
