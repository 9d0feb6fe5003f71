use futures_core::Stream;

use super::Topics;
use super::payloads::{Text, Tick};
use super::rule::Rule;
use crate::error::{Cause, ErrorKind};
use crate::topic::SubscribeOptions;

/// `topic-uninterrupted`: a subscription delivers everything or ends with a cause that sticks, after what came before.
pub async fn topic_uninterrupted<S: Topics>(subject: S) {
    const RULE: Rule = Rule("topic-uninterrupted");
    let (here, there) = (RULE.broker(&subject), RULE.broker(&subject));
    let topic = RULE.unwrap("binding", Tick::topic(&here));
    let publisher = RULE.unwrap("binding", Tick::topic(&there));
    for interrupted in [true, false] {
        let mut subscription = RULE.ok("subscribing", topic.subscribe(&1)).await;
        let mut keyed = RULE.ok("subscribing", topic.subscribe_keys(&1, &[2])).await;
        let mut neighbour = RULE.ok("subscribing", topic.subscribe(&2)).await;
        for n in 0..10 {
            RULE.ok("publishing", publisher.publish(&1, &Tick { n })).await;
        }
        // What came later on the same connection has come, so these are buffered.
        RULE.ok("publishing", publisher.publish(&2, &Tick { n: 10 })).await;
        RULE.same("the neighbour", RULE.next("the neighbour's event", &mut neighbour).await.n, 10);
        if interrupted {
            subject.interrupt().await;
        }
        for n in 11..15 {
            // The publisher's connection may be the one that was lost.
            RULE.eventually("publishing after", async || publisher.publish(&1, &Tick { n }).await.is_ok()).await;
        }
        for n in 0..10 {
            RULE.same("what came before", RULE.next("what came before", &mut subscription).await.n, n);
            RULE.same(
                "what came before, keyed",
                RULE.next_keyed("what came before", &mut keyed).await,
                (1, Tick { n }),
            );
        }
        if interrupted {
            RULE.ends("after an interruption", &mut subscription, Cause::Disconnected).await;
            RULE.ends("the neighbour after an interruption", &mut neighbour, Cause::Disconnected).await;
            RULE.same("keyed", RULE.next_keyed("the last event", &mut keyed).await.0, 2);
            let ended = RULE.fails("keyed after an interruption", keyed.receive()).await;
            RULE.same("keyed after an interruption", ended.cause(), Some(Cause::Disconnected));
        } else {
            for n in 11..15 {
                RULE.same("the control", RULE.next("the control", &mut subscription).await.n, n);
            }
        }
    }
    // A new subscription works after an interruption, and as a stream the ending is its last item.
    let mut subscription = RULE.ok("subscribing again", topic.subscribe(&1)).await;
    RULE.eventually("publishing again", async || publisher.publish(&1, &Tick { n: 1 }).await.is_ok()).await;
    RULE.same("after subscribing again", RULE.next("an event", &mut subscription).await.n, 1);
    subject.interrupt().await;
    let item = RULE.within("the ending", next_item(&mut subscription)).await;
    let last = item.and_then(Result::err).and_then(|error| error.cause());
    RULE.same("a stream's last item", last, Some(Cause::Disconnected));
    RULE.that(RULE.within("the end", next_item(&mut subscription)).await.is_none(), "a stream ends behind its cause");

    // `TooLarge`; `Overflow`, `Malformed` and `Closed` have properties of their own.
    let options = SubscribeOptions::new().receive_bytes(64);
    let texts = RULE.unwrap("binding", Text::topic(&here));
    let mut small = RULE.ok("subscribing", RULE.unwrap("options", texts.with_options(options)).subscribe(&1)).await;
    let mut large = RULE.ok("subscribing", texts.subscribe(&1)).await;
    for bytes in [1, 100, 2] {
        RULE.eventually("publishing", async || texts.publish(&1, &Text::of(bytes)).await.is_ok()).await;
    }
    RULE.same("before it", RULE.next("before it", &mut small).await, Text::of(1));
    RULE.ends("a payload too large", &mut small, Cause::TooLarge).await;
    for bytes in [1, 100, 2] {
        RULE.same("the control", RULE.next("the control", &mut large).await, Text::of(bytes));
    }
}

async fn next_item<St: Stream + Unpin>(stream: &mut St) -> Option<St::Item> {
    std::future::poll_fn(|cx| std::pin::Pin::new(&mut *stream).poll_next(cx)).await
}

/// `topic-overflow-isolated`: a slow subscription ends at its bound; publisher and neighbours notice nothing.
pub async fn topic_overflow_isolated<S: Topics>(subject: S) {
    const RULE: Rule = Rule("topic-overflow-isolated");
    let (here, there) = (RULE.broker(&subject), RULE.broker(&subject));
    let topic = RULE.unwrap("binding", Tick::topic(&here));
    let publisher = RULE.unwrap("binding", Tick::topic(&there));
    let narrow = RULE.unwrap("options", topic.with_options(SubscribeOptions::new().buffer_messages(4)));
    let mut slow = RULE.ok("subscribing", narrow.subscribe(&1)).await;
    let mut neighbour = RULE.ok("subscribing", topic.subscribe(&1)).await;
    let mut other = RULE.ok("subscribing", topic.subscribe(&2)).await;
    for n in 0..200 {
        RULE.ok("publishing past a slow subscription", publisher.publish(&1, &Tick { n })).await;
    }
    RULE.ok("publishing", publisher.publish(&2, &Tick { n: 1 })).await;
    for n in 0..200 {
        RULE.same("the neighbour", RULE.next("the neighbour's every message", &mut neighbour).await.n, n);
    }
    RULE.same("the other key", RULE.next("the other key", &mut other).await.n, 1);
    for n in 0..4 {
        RULE.same("what fitted", RULE.next("what fitted", &mut slow).await.n, n);
    }
    RULE.ends("the slow one", &mut slow, Cause::Overflow).await;

    // Bytes count as messages do.
    let texts = RULE.unwrap("binding", Text::topic(&here));
    let size = serde_json::to_vec(&Text::of(100)).map_or(0, |payload| payload.len());
    let narrow = RULE.unwrap("options", texts.with_options(SubscribeOptions::new().buffer_bytes(3 * size)));
    let mut slow = RULE.ok("subscribing", narrow.subscribe(&1)).await;
    let mut neighbour = RULE.ok("subscribing", texts.subscribe(&1)).await;
    for _ in 0..4 {
        RULE.ok("publishing", texts.publish(&1, &Text::of(100))).await;
    }
    for _ in 0..4 {
        RULE.next("the neighbour's every message", &mut neighbour).await;
    }
    for _ in 0..3 {
        RULE.next("what fitted", &mut slow).await;
    }
    RULE.ends("over its bytes", &mut slow, Cause::Overflow).await;

    // The control: read along, the same bound is enough.
    let narrow = RULE.unwrap("options", topic.with_options(SubscribeOptions::new().buffer_messages(1)));
    let mut quick = RULE.ok("subscribing", narrow.subscribe(&3)).await;
    for n in 0..50 {
        RULE.ok("publishing", publisher.publish(&3, &Tick { n })).await;
        RULE.same("the control", RULE.next("the control", &mut quick).await.n, n);
    }
    let bad = topic.with_options(SubscribeOptions::new().buffer_messages(0).receive_bytes(0));
    RULE.same("options out of bounds", RULE.unwrap_err("zero", bad).kind(), ErrorKind::Invalid);
}
