//! Durables and cursors: deliveries that are settled one by one, with attempts that the server counts.

mod handle;
mod in_flight;
mod settings;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::bound::{BoundGroup, Discipline};
use super::{Delivery, Stream};
use crate::call::Call;
use crate::capability::{Backend, Capability, Cursors, Pulled};
use crate::codec::Decode;
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, Operation};
use crate::telemetry;
use handle::Handle;

pub use in_flight::InFlight;
pub use settings::{DurableInfo, DurableOwner, DurableSettings};

impl<T: StreamSpec, B: Backend> Stream<T, B> {
    /// Looks up an owner's durable, to create, inspect or remove it, or to run a worker over it. It does no I/O.
    ///
    /// # Errors
    ///
    /// `Overloaded` when `groups` are looked up already, and `Unsupported` on a backend chosen at run time that has none.
    pub fn durable(&self, owner: &DurableOwner) -> Result<Durable<T, B>, Error>
    where
        B: Cursors,
    {
        self.needs(Capability::Cursors, Operation::Bind)?;
        Ok(Durable { stream: self.clone(), bound: self.group(Discipline::Durable, owner.durable())? })
    }

    /// Binds a cursor to an owner's durable, which has to be there: [`Durable::cursor`].
    ///
    /// # Errors
    ///
    /// As there, and as [`durable`](Self::durable).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidings::{Broker, Config, DurableOwner, DurableSettings, Namespace, StreamSettings, backend::Memory, stream_spec};
    /// #[stream_spec(name = "shop.orders", version = 1, key = u64, requires(cursors))]
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Order { cents: i64 }
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
    /// let broker = Broker::new(Memory::new(), Config::new(Namespace::new("shop", "test")?))?;
    /// let orders = Order::stream(&broker)?;
    /// orders.ensure(StreamSettings::new()).await?;
    /// let billing = DurableOwner::module("billing")?;
    /// orders.durable(&billing)?.ensure(DurableSettings::new().ack_wait(Duration::from_secs(5))).await?;
    /// orders.append(&7, &Order { cents: 990 }).await?;
    ///
    /// let mut cursor = orders.cursor(&billing).await?;
    /// let order = cursor.next().await?;
    /// assert_eq!((order.value()?.cents, order.attempt()), (990, 1));
    /// order.nak(Duration::from_millis(10)).await?;
    /// let again = cursor.next().await?;
    /// assert_eq!(again.attempt(), 2);
    /// again.ack().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cursor(&self, owner: &DurableOwner) -> Call<'_, Cursor<T, B>>
    where
        B: Cursors,
    {
        let durable = self.durable(owner);
        Call::new(async move { durable?.cursor().await })
    }
}

/// A durable of a stream: what [`Stream::durable`] returns. It is a place on the server that outlives the process.
pub struct Durable<T: StreamSpec, B: Backend> {
    pub(crate) stream: Stream<T, B>,
    pub(crate) bound: Arc<BoundGroup>,
}

impl<T: StreamSpec, B: Cursors> Durable<T, B> {
    /// Creates the durable where the stream exists, and says whether it did. One that is there with these settings stays
    /// where it is, whatever the start.
    ///
    /// # Errors
    ///
    /// `Invalid` with every setting out of its bounds; `Absent` where the stream isn't there; `Conflict` where the durable
    /// has other settings; `Unsupported` for a setting that the backend can't honour; `Timeout`, `Unavailable`, `Refused`,
    /// `Forbidden`, `Overloaded`, `Closed`. With an unknown outcome call it again: it is idempotent.
    pub fn ensure(&self, settings: DurableSettings) -> Call<'_, bool> {
        Call::new(async move {
            self.within_bounds(&settings, Operation::Ensure)?;
            let ensuring = B::ensure_durable(self.stream.client(), &self.bound.address, &settings);
            let created = self.stream.operate(Operation::Ensure, ensuring).await?;
            self.bound.remember_durable(Some(settings));
            Ok(created)
        })
    }

    /// Changes the settings of a durable that is there, all but where it begins. What is unsettled stays so.
    ///
    /// # Errors
    ///
    /// `Absent` where the durable isn't there, `Conflict` for a change that the server can't make; otherwise as
    /// [`ensure`](Self::ensure).
    pub fn update(&self, settings: DurableSettings) -> Call<'_, ()> {
        Call::new(async move {
            self.within_bounds(&settings, Operation::Update)?;
            let updating = B::update_durable(self.stream.client(), &self.bound.address, &settings);
            self.stream.operate(Operation::Update, updating).await?;
            self.bound.remember_durable(Some(settings));
            Ok(())
        })
    }

    /// Removes the durable with what is unsettled, and says whether it was there. Cursors that are bound to it fail.
    ///
    /// # Errors
    ///
    /// `Absent` where the stream isn't there; otherwise as [`ensure`](Self::ensure).
    pub fn delete(&self) -> Call<'_, bool> {
        Call::new(async move {
            self.bound.remember_durable(None);
            let deleting = B::delete_durable(self.stream.client(), &self.bound.address);
            self.stream.operate(Operation::Delete, deleting).await
        })
    }

    /// Returns how the durable is set up, and how far it is.
    ///
    /// # Errors
    ///
    /// `Absent` where durable or stream aren't there; `Timeout`, `Unavailable`, `Refused`, `Forbidden`, `Overloaded`,
    /// `Closed`.
    pub fn info(&self) -> Call<'_, DurableInfo> {
        Call::new(async move { self.inspect(Operation::Inspect).await })
    }

    pub(crate) async fn inspect(&self, operation: Operation) -> Result<DurableInfo, Error> {
        let stream = &self.stream;
        stream.operate(operation, B::inspect_durable(stream.client(), &self.bound.address)).await
    }

    /// Binds a cursor, which has one delivery in flight. It never creates the durable.
    ///
    /// # Errors
    ///
    /// `Absent` where the durable isn't there: [`ensure`](Self::ensure) creates it. `Conflict` where it hands out more than
    /// one delivery at a time, so that something could overtake: set [`in_flight`](DurableSettings::in_flight) to 1, or run
    /// a [worker](Self::worker). Otherwise as [`info`](Self::info).
    pub fn cursor(&self) -> Call<'_, Cursor<T, B>> {
        Call::new(async move {
            let in_flight = self.inspect(Operation::Bind).await?.settings.in_flight;
            if in_flight != 1 {
                let detail = format!(
                    "the durable `{}` has up to {in_flight} deliveries in flight; `update` it to 1, or run a worker",
                    self.name()
                );
                return Err(self.error(ErrorKind::Conflict, Operation::Bind).detail(detail));
            }
            let handle = Box::new(self.bind(Operation::Bind).await?);
            Ok(Cursor { durable: self.clone(), handle, ahead: VecDeque::new() })
        })
    }

    pub(crate) async fn bind(&self, operation: Operation) -> Result<B::Durable, Error> {
        let stream = &self.stream;
        stream.operate(operation, B::bind_durable(stream.client(), &self.bound.address)).await
    }

    fn within_bounds(&self, settings: &DurableSettings, operation: Operation) -> Result<(), Error> {
        let problems = settings.problems();
        if problems.is_empty() {
            return Ok(());
        }
        Err(self.error(ErrorKind::Invalid, operation).detail(problems.join("; ")))
    }
}

impl<T: StreamSpec, B: Backend> Durable<T, B> {
    /// Returns the durable's name on the server: `c_{id}` of an agent, `m_{id}` of a module.
    #[must_use]
    pub fn name(&self) -> &str {
        self.bound.address.name()
    }

    /// Returns the stream.
    #[must_use]
    pub fn stream(&self) -> &Stream<T, B> {
        &self.stream
    }

    pub(crate) fn error(&self, kind: ErrorKind, operation: Operation) -> Error {
        self.stream.error(kind, operation)
    }
}

/// One delivery in flight of a durable: what [`Stream::cursor`] and [`Durable::cursor`] return.
///
/// A delivery borrows its cursor, so that the next one comes when it is settled or let go. Two cursors of one durable, in
/// one process or in several, share that one delivery.
pub struct Cursor<T: StreamSpec, B: Backend> {
    durable: Durable<T, B>,
    handle: Box<dyn Handle>,
    /// What came with something else.
    ahead: VecDeque<Pulled>,
}

/// It asks again after so long, since an operation without end couldn't be told from one that hangs.
const WAIT: Duration = Duration::from_secs(30);

impl<T: StreamSpec + Send + 'static, B: Backend> Cursor<T, B> {
    /// Waits for the next delivery. One that can't be decoded comes in its place, and can be settled.
    ///
    /// A delivery that was let go unsettled comes again once its ack wait is over, and until then nothing does.
    ///
    /// # Errors
    ///
    /// `Undelivered` for a record that was handed out as often as [`max_deliver`](DurableSettings::max_deliver) allows and
    /// never settled; [`Error::position`] says where it stands, and the next call goes on. `Trimmed` where records were
    /// removed from the stream before they were handed out: [`Error::first_left`] is the first that is there, and the next
    /// call goes on with it. `Absent` where the durable is gone, and once where it is another one since; `Timeout`, `Unavailable`, `Refused`, `Forbidden`, `Closed`.
    /// Nothing waits between two calls after an error, so wait yourself.
    ///
    /// # Cancel safety
    ///
    /// Dropping the call loses nothing: what came for it is the next call's.
    // An iterator's `next` returns an option, and what it returns lives on.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Call<'_, InFlight<'_, T, B>>
    where
        T::Codec: Decode<T>,
    {
        Call::new(async move {
            let stored = loop {
                if let Some(pulled) = self.pull(WAIT).await? {
                    break pulled;
                }
            };
            Ok(InFlight::new(&*self, stored))
        })
    }

    /// Waits up to `wait` for the next delivery.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next), and `Overloaded`.
    ///
    /// # Cancel safety
    ///
    /// As [`next`](Self::next).
    pub fn next_within(&mut self, wait: Duration) -> Call<'_, Option<InFlight<'_, T, B>>>
    where
        T::Codec: Decode<T>,
    {
        Call::new(async move {
            let pulled = {
                let durable = self.durable.clone();
                let _place = durable.stream.place(Operation::Consume).await?;
                self.pull(wait).await?
            };
            Ok(pulled.map(|pulled| InFlight::new(&*self, pulled)))
        })
    }

    async fn pull(&mut self, wait: Duration) -> Result<Option<in_flight::Taken>, Error> {
        let stream = &self.durable.stream;
        if self.ahead.is_empty() {
            self.ahead.extend(stream.observe(Operation::Consume, self.handle.pull(wait)).await?);
        }
        match self.ahead.pop_front() {
            None => Ok(None),
            Some(Pulled::Delivery(stored, ticket)) => Ok(Some((stored, ticket))),
            Some(Pulled::Exhausted(position)) => {
                telemetry::undelivered(stream.declaration(), stream.broker.inner.system, position);
                Err(self.durable.error(ErrorKind::Undelivered, Operation::Consume).at(position))
            }
            Some(Pulled::Trimmed { after, first }) => {
                telemetry::trimmed(stream.declaration(), stream.broker.inner.system, after, first, true);
                let trimmed = ErrorKind::Trimmed { certain: true };
                Err(self.durable.error(trimmed, Operation::Consume).first_left_at(first))
            }
        }
    }
}

impl<T: StreamSpec, B: Backend> Cursor<T, B> {
    /// Returns the durable.
    #[must_use]
    pub fn durable(&self) -> &Durable<T, B> {
        &self.durable
    }
}

impl<T: StreamSpec, B: Backend> Clone for Durable<T, B> {
    fn clone(&self) -> Self {
        Self { stream: self.stream.clone(), bound: self.bound.clone() }
    }
}

impl<T: StreamSpec, B: Backend> fmt::Debug for Durable<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durable").field("stream", &self.stream).field("name", &self.name()).finish_non_exhaustive()
    }
}

impl<T: StreamSpec, B: Backend> fmt::Debug for Cursor<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("durable", &self.durable).finish_non_exhaustive()
    }
}
