use futures_core::Stream;

use super::Topics;
use super::payloads::Tick;
use super::rule::{Rule, poll_once};

/// `topic-sequential`: a dropped receive loses nothing; two in one `select` lose nothing; the stream is the same.
pub async fn topic_sequential<S: Topics>(subject: S) {
    const RULE: Rule = Rule("topic-sequential");
    const COUNT: u64 = 200;
    let (here, there) = (RULE.broker(&subject), RULE.broker(&subject));
    let topic = RULE.unwrap("binding", Tick::topic(&here));
    let publisher = RULE.unwrap("binding", Tick::topic(&there));
    let mut dropped = RULE.ok("subscribing", topic.subscribe(&1)).await;
    let mut control = RULE.ok("subscribing", topic.subscribe(&1)).await;
    let mut streamed = RULE.ok("subscribing", topic.subscribe(&1)).await;
    let mut other = RULE.ok("subscribing", topic.subscribe(&2)).await;

    // Receives are begun and dropped before, while and after messages come.
    let mut seen = Vec::new();
    let mut take = |polled: std::task::Poll<Result<Tick, crate::Error>>| {
        if let std::task::Poll::Ready(event) = polled {
            seen.push(RULE.unwrap("a receive", event).n);
        }
    };
    for n in 0..COUNT {
        take(poll_once(dropped.receive()));
        RULE.ok("publishing", publisher.publish(&1, &Tick { n })).await;
        take(poll_once(dropped.receive()));
        tokio::task::yield_now().await;
    }
    while seen.len() < usize::try_from(COUNT).unwrap_or(0) {
        tokio::select! {
            biased;
            () = tokio::task::yield_now() => {}
            event = RULE.next("after dropped receives", &mut dropped) => seen.push(event.n),
        }
        if let std::task::Poll::Ready(event) = poll_once(dropped.receive()) {
            seen.push(RULE.unwrap("a receive", event).n);
        } else {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        RULE.that(seen.is_sorted(), "dropped receives must not reorder");
    }
    RULE.same("after dropped receives", seen, (0..COUNT).collect::<Vec<_>>());

    // Two subscriptions in one select.
    for n in 0..COUNT {
        RULE.ok("publishing", publisher.publish(&2, &Tick { n })).await;
    }
    let (mut ones, mut twos) = (Vec::new(), Vec::new());
    for _ in 0..2 * COUNT {
        RULE.within("one of two", async {
            tokio::select! {
                event = control.receive() => ones.push(RULE.unwrap("a receive", event).n),
                event = other.receive() => twos.push(RULE.unwrap("a receive", event).n),
            }
        })
        .await;
    }
    RULE.same("the one in a select", ones, (0..COUNT).collect::<Vec<_>>());
    RULE.same("the other in a select", twos, (0..COUNT).collect::<Vec<_>>());

    // As a stream.
    for n in 0..COUNT {
        let item = std::future::poll_fn(|cx| std::pin::Pin::new(&mut streamed).poll_next(cx));
        let event = RULE.within("an item", item).await.and_then(Result::ok);
        RULE.same("the stream", event, Some(Tick { n }));
    }
}
