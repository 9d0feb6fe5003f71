use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::{Delivery, Position, Positions, Start, Stream};
use crate::call::Call;
use crate::capability::{Log, Read};
use crate::codec::Decode;
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, Operation};

impl<T: StreamSpec, B: Log> Stream<T, B> {
    /// Reads at most `max` records, waiting up to `wait` for the first.
    ///
    /// A record that can't be decoded comes in its place, as a delivery whose value is the error. With
    /// [`Start::Latest`] only what is appended during the wait is read; to follow a stream use [`tail`](Self::tail).
    ///
    /// # Errors
    ///
    /// `Trimmed` where records after a position were removed before they could be read, with the first position left:
    /// go on there with [`Start::Earliest`]. In memory and on Redis that is told of a stream that was deleted and made
    /// anew, too. `Absent`, `Invalid` (`max` outside 1 to `read_records`), `Timeout`, `Unavailable`, `Refused`,
    /// `Forbidden`, `Overloaded`, `Closed`. Nothing found in time is an empty answer and no error.
    ///
    /// # Cancel safety
    ///
    /// Reading changes nothing, so it can be dropped.
    pub fn read(&self, from: impl Into<Start>, max: usize, wait: Duration) -> Call<'_, Vec<Delivery<T>>>
    where
        T: Send,
        T::Codec: Decode<T>,
    {
        let from = from.into();
        Call::new(async move {
            self.within_page(max, Operation::Read)?;
            let _place = self.place(Operation::Read).await?;
            self.read_after(&from, &mut None, max, wait).await
        })
    }

    /// Follows the stream for ever, from a start that is resolved once.
    ///
    /// The [`Reader`] reads ahead by one page of at most 256 records. While it waits it takes no place among the
    /// operations, so that one that nobody polls holds up no close.
    pub fn tail(&self, from: impl Into<Start>) -> Reader<T, B> {
        Reader {
            stream: self.clone(),
            from: from.into(),
            after: None,
            ahead: VecDeque::new(),
            reading: None,
            page: PAGE,
        }
    }

    /// Reads a page. What was read is marked in `after`, which a start resolves to at first.
    async fn read_after(
        &self,
        from: &Start,
        after: &mut Option<Positions>,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery<T>>, Error>
    where
        T::Codec: Decode<T>,
    {
        let address = &self.bound.address;
        let resolved = match after.take() {
            Some(resolved) => resolved,
            None => self.observe(Operation::Read, B::start(self.client(), address, from)).await?,
        };
        let from = after.insert(resolved);
        let reading = B::read(self.client(), address, from, max, wait);
        match self.observe(Operation::Read, reading).await? {
            Read::Records(records) => {
                from.extend(records.iter().map(|stored| stored.position));
                Ok(records.into_iter().map(Delivery::decode).collect())
            }
            Read::Trimmed { first, certain } => {
                // What is left begins there, and what of it goes meanwhile is told again.
                match first.offset().checked_sub(1) {
                    Some(before) => from.advance(Position::new(first.partition(), before)),
                    None => from.remove(first.partition()),
                }
                Err(self.trimmed(Operation::Read, first, certain))
            }
        }
    }

    pub(super) fn trimmed(&self, operation: Operation, first: Position, certain: bool) -> Error {
        self.error(ErrorKind::Trimmed { certain }, operation).first_left_at(first)
    }
}

/// A page of a reader, on its way.
type Page<T> = Pin<Box<dyn Future<Output = (Option<Positions>, Result<Vec<Delivery<T>>, Error>)> + Send>>;

/// Follows a stream. It is a `futures` `Stream`, too, that never ends by itself.
pub struct Reader<T: StreamSpec, B: Log> {
    stream: Stream<T, B>,
    from: Start,
    /// Up to where has been read; `None` until the start is resolved.
    after: Option<Positions>,
    ahead: VecDeque<Delivery<T>>,
    reading: Option<Page<T>>,
    /// Records of the next page: fewer after one that didn't come in time, which may have been too large.
    page: usize,
}

/// Records of one page at most.
const PAGE: usize = 256;
/// A reader asks again after so long, since an operation without end couldn't be told from one that hangs.
const WAIT: Duration = Duration::from_secs(30);

impl<T: StreamSpec + Send + 'static, B: Log> Reader<T, B> {
    /// Waits for the next record. Those that can't be decoded come in their place.
    ///
    /// # Errors
    ///
    /// After `Trimmed` the next call goes on at the first record left. After any other error but `Closed` the next call
    /// tries again where reading stood; nothing is skipped, and nothing waits between the two, so wait yourself.
    ///
    /// # Cancel safety
    ///
    /// Dropping it loses nothing.
    pub fn receive(&mut self) -> Call<'_, Delivery<T>>
    where
        T::Codec: Decode<T>,
    {
        Call::new(std::future::poll_fn(|cx| self.poll_delivery(cx)))
    }

    fn poll_delivery(&mut self, cx: &mut Context<'_>) -> Poll<Result<Delivery<T>, Error>>
    where
        T::Codec: Decode<T>,
    {
        loop {
            if let Some(delivery) = self.ahead.pop_front() {
                return Poll::Ready(Ok(delivery));
            }
            let reading = self.reading.get_or_insert_with(|| {
                let (stream, from, mut after) = (self.stream.clone(), self.from.clone(), self.after.clone());
                let most = self.page.min(self.stream.broker.limits().read_records);
                Box::pin(async move {
                    let page = stream.read_after(&from, &mut after, most, WAIT).await;
                    (after, page)
                })
            });
            let (after, page) = ready!(reading.as_mut().poll(cx));
            self.reading = None;
            self.after = after;
            let late =
                matches!(&page, Err(failed) if matches!(failed.kind(), ErrorKind::Timeout | ErrorKind::Unavailable));
            self.page = if late { (self.page / 2).max(1) } else { (self.page * 2).min(PAGE) };
            self.ahead.extend(page?);
        }
    }
}

impl<T, B> futures_core::Stream for Reader<T, B>
where
    T: StreamSpec + Send + 'static,
    B: Log,
    T::Codec: Decode<T>,
{
    type Item = Result<Delivery<T>, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_delivery(cx).map(Some)
    }
}

// It holds no value in place.
impl<T: StreamSpec, B: Log> Unpin for Reader<T, B> {}

impl<T: StreamSpec, B: Log> fmt::Debug for Reader<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("stream", &self.stream)
            .field("from", &self.from)
            .field("ahead", &self.ahead.len())
            .finish_non_exhaustive()
    }
}
