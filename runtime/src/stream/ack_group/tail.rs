use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::super::{Delivery, Position};
use super::Consumer;
use crate::call::Call;
use crate::capability::AckGroups;
use crate::codec::Decode;
use crate::declaration::StreamSpec;
use crate::error::Error;

/// Follows an ack group as one of its consumers. It is a `futures` `Stream`, too, that never ends by itself.
///
/// It reads ahead by one page of at most 64 entries, which are pending for the consumer while they wait here.
pub struct Tail<T: StreamSpec, B: AckGroups> {
    consumer: Consumer<T, B>,
    /// Whether the history is being read, and up to where it was.
    in_history: bool,
    history: Option<Position>,
    ahead: VecDeque<Delivery<T>>,
    lost: Vec<Position>,
    reading: Option<Page<T>>,
}

type Page<T> = Pin<Box<dyn Future<Output = Result<(Vec<Delivery<T>>, Vec<Position>), Error>> + Send>>;

/// Entries of one page.
const PAGE: usize = 64;
/// It asks again after so long, since an operation without end couldn't be told from one that hangs.
const WAIT: Duration = Duration::from_secs(30);

impl<T: StreamSpec, B: AckGroups> Tail<T, B> {
    pub(super) fn new(consumer: Consumer<T, B>, pending_first: bool) -> Self {
        Self {
            consumer,
            in_history: pending_first,
            history: None,
            ahead: VecDeque::new(),
            lost: Vec::new(),
            reading: None,
        }
    }

    /// Takes the positions of pending entries that turned out to be removed from the stream.
    pub fn take_lost(&mut self) -> Vec<Position> {
        std::mem::take(&mut self.lost)
    }
}

impl<T: StreamSpec + Send + 'static, B: AckGroups> Tail<T, B> {
    /// Waits for the next delivery. Those that can't be decoded come in their place.
    ///
    /// # Errors
    ///
    /// As [`Consumer::read`]. The next call tries again; nothing waits between the two, so wait yourself.
    ///
    /// # Cancel safety
    ///
    /// Dropping the call loses nothing. Dropping the `Tail` leaves what it read ahead pending.
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
                let (consumer, in_history, history) = (self.consumer.clone(), self.in_history, self.history);
                Box::pin(async move {
                    if in_history {
                        consumer.history(history, PAGE).await.map(|claimed| (claimed.deliveries, claimed.lost))
                    } else {
                        consumer.read_unplaced(PAGE, WAIT).await.map(|deliveries| (deliveries, Vec::new()))
                    }
                })
            });
            let page = ready!(reading.as_mut().poll(cx));
            self.reading = None;
            let (deliveries, lost) = page?;
            if self.in_history {
                let seen = deliveries.iter().map(Delivery::position).chain(lost.iter().copied());
                let furthest = seen.max_by_key(|position| (position.partition(), position.offset()));
                // An empty page is the last.
                self.in_history = furthest.is_some();
                self.history = furthest;
            }
            self.lost.extend(lost);
            self.ahead.extend(deliveries);
        }
    }
}

impl<T, B> futures_core::Stream for Tail<T, B>
where
    T: StreamSpec + Send + 'static,
    B: AckGroups,
    T::Codec: Decode<T>,
{
    type Item = Result<Delivery<T>, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_delivery(cx).map(Some)
    }
}

// It holds no value in place.
impl<T: StreamSpec, B: AckGroups> Unpin for Tail<T, B> {}

impl<T: StreamSpec, B: AckGroups> fmt::Debug for Tail<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail")
            .field("consumer", &self.consumer)
            .field("ahead", &self.ahead.len())
            .finish_non_exhaustive()
    }
}
