use std::time::Duration;

use tokio::time::Instant;

use super::Streams;
use super::entries::{Entry, Other};
use super::steps::all;
use crate::capability::Dedup;
use crate::conformance::rule::Rule;
use crate::error::ErrorKind;
use crate::stream::{Append, Start, StreamSettings};

/// `append-dedup`: a second append with an id stores nothing and returns the first one's position; ids are per stream.
pub async fn append_dedup<S: Streams<Backend: Dedup>>(subject: S) {
    const RULE: Rule = Rule("append-dedup");
    let stream = RULE.entries(&subject).await;
    let again = RULE.bound(&subject);
    let entry = Entry { n: 1 };
    let once = |id: &str| Append::new(&1, &entry).id(id);
    let first = RULE.ok("appending", stream.append_with(once("a"))).await;
    let position = RULE.stored("the first append of an id", first);
    RULE.fill(&stream, [2]).await;
    for from in [&stream, &again] {
        let second = RULE.ok("appending again", from.append_with(once("a"))).await;
        RULE.that(second.duplicate, "the second append of an id must be told as a duplicate");
        RULE.same("where the first one stands", second.position, Some(position));
    }
    // Another payload and other headers under the same id are a duplicate, too; so is one in a batch.
    let other = Entry { n: 9 };
    let second = RULE.ok("appending", stream.append_with(Append::new(&1, &other).id("a").header("x", "y"))).await;
    RULE.same("another payload under the id", (second.duplicate, second.position), (true, Some(position)));
    let batch = [once("a"), once("b"), once("b"), Append::new(&1, &other)];
    let outcomes = RULE.ok("a batch", again.append_all(batch)).await;
    let receipts: Vec<_> = outcomes.into_iter().map(|outcome| RULE.unwrap("a record", outcome)).collect();
    let duplicates: Vec<_> = receipts.iter().map(|receipt| receipt.duplicate).collect();
    RULE.same("duplicates in a batch", duplicates, [true, false, true, false]);
    RULE.same("a duplicate within a batch", receipts[1].position, receipts[2].position);
    // The control: without an id, and with another one, everything is stored.
    RULE.fill(&stream, [1, 1]).await;
    let read = RULE.read("reading", &again, Start::Earliest).await;
    RULE.same("what was stored", RULE.numbers("reading", &read), [1, 2, 1, 9, 1, 1]);
    RULE.same("the payload under the id", read[0].position(), position);

    // Many at once: one is stored, and all are told where.
    let appends: Vec<_> = (0..16).map(|n| [&stream, &again][n % 2].append_with(once("race"))).collect();
    let receipts: Vec<_> = RULE
        .within("appending at once", all(appends))
        .await
        .into_iter()
        .map(|outcome| RULE.unwrap("appending", outcome))
        .collect();
    let stored = receipts.iter().filter(|receipt| !receipt.duplicate).count();
    RULE.same("those stored of one id", stored, 1);
    RULE.that(receipts.iter().all(|receipt| receipt.position == receipts[0].position), "all are told one position");

    // Per stream, and as long as there is one.
    let others = RULE.unwrap("binding", Other::stream(stream.broker()));
    RULE.ok("creating another stream", others.ensure(StreamSettings::new())).await;
    let receipt = RULE.ok("appending", others.append_with(Append::new(&1, &Other { n: 1 }).id("a"))).await;
    RULE.stored("the id in another stream", receipt);
    RULE.ok("removing the stream", stream.delete()).await;
    RULE.ok("creating it anew", stream.ensure(StreamSettings::new())).await;
    let receipt = RULE.ok("appending", stream.append_with(once("a"))).await;
    RULE.stored("the id in a new stream", receipt);
    RULE.reads("a new stream", &stream, Start::Earliest, [1]).await;
}

/// `append-dedup`: an id is remembered for the stream's window, which a duplicate doesn't extend.
pub async fn dedup_window<S: Streams<Backend: Dedup>>(subject: S) {
    const RULE: Rule = Rule("append-dedup");
    /// Clocks of two processes round otherwise.
    const ROUNDING: Duration = Duration::from_millis(20);
    let window = Duration::from_secs(2);
    let absent = RULE.bound(&subject);
    let failed = RULE.fails("the window of no stream", absent.dedup_window()).await;
    RULE.refused("the window of no stream", &failed, ErrorKind::Absent);
    let stream = RULE.entries_of(&subject, StreamSettings::new().dedup_window(window)).await;
    RULE.same("the stream's own window", RULE.ok("asking", absent.dedup_window()).await, window);

    let entry = Entry { n: 1 };
    let once = || stream.append_with(Append::new(&1, &entry).id("a"));
    let began = Instant::now();
    let first = RULE.stored("appending", RULE.ok("appending", once()).await);
    let second = RULE.ok("appending again", once()).await;
    RULE.same("a duplicate at once", (second.duplicate, second.position), (true, Some(first)));
    // Each of these is a duplicate; did they extend the window, it would never end.
    RULE.eventually("the window passes", async || {
        tokio::time::sleep(Duration::from_millis(20)).await;
        !RULE.ok("appending again", once()).await.duplicate
    })
    .await;
    RULE.that(began.elapsed() + ROUNDING >= window, "an id must be remembered for the whole window");
    RULE.reads("what was stored", &stream, Start::Earliest, [1, 1]).await;
    let again = RULE.ok("appending again", once()).await;
    RULE.that(
        again.duplicate && again.position > Some(first),
        "the second record of the id begins a window of its own",
    );
}
