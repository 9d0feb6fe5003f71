use std::fmt::Display;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

/// How long a test waits for anything before it fails: far more than a busy machine needs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The time between two looks at something that can't notify.
const INTERVAL: Duration = Duration::from_millis(5);

/// Awaits `future`, for at most [`PATIENCE`], and panics with `what` when that is over.
pub async fn within<F: Future>(what: impl Display, future: F) -> F::Output {
    let Ok(output) = timeout(PATIENCE, future).await else { panic!("not within {PATIENCE:?}: {what}") };
    output
}

/// Asks `look` until it says `Ok`, for at most [`PATIENCE`]; panics with `what` and the last `Err` when that is over.
///
/// For what other processes do. Where the thing awaited can notify, use [`within`].
pub async fn eventually<T, E, F>(what: impl Display, look: impl FnMut() -> F) -> T
where
    // Not `AsyncFnMut`: the compiler can't tell that its future is `Send`, and tests spawn.
    F: Future<Output = Result<T, E>>,
    E: Display,
{
    eventually_in(PATIENCE, what, look).await
}

/// As [`eventually`], for what takes longer.
pub(super) async fn eventually_in<T, E, F>(patience: Duration, what: impl Display, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, E>>,
    E: Display,
{
    let deadline = Instant::now() + patience;
    let mut last = String::from("no answer to the first question");
    loop {
        let seen = timeout_at(deadline, look()).await;
        // One that answers at once is in time for the timer, however late it is.
        let Ok(seen) = seen.map_err(drop).and_then(|seen| if Instant::now() < deadline { Ok(seen) } else { Err(()) })
        else {
            panic!("not within {patience:?}: {what}; last seen: {last}")
        };
        match seen {
            Ok(value) => return value,
            Err(error) => last = error.to_string(),
        }
        sleep(INTERVAL).await;
    }
}
