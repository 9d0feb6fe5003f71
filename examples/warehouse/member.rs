//! A member of the group: reads a page, counts it, and records the counts and the page as done in one unit.

use std::future::pending;
use std::time::Duration;

use tidings::capability::{CommitGroups, Transactions};
use tidings::{Broker, ErrorKind, KeyedStream, MemberSettings};
use tidings_examples::{Accounts, Failure};

use crate::entry::{QuakeDelivered, QuakesCounted};

/// Records of a page.
const PAGE: usize = 20;
/// How long it waits for something to read before it looks whether anything is left.
const WAIT: Duration = Duration::from_millis(200);
/// How long one page takes, as if something were done with it.
const WORK: Duration = Duration::from_millis(10);
/// Where the counts go, and which group does it.
pub(crate) const GROUP: &str = "warehouse";

/// Works until everything is counted. One that is to be killed tells when it has counted so many pages, and stands still.
pub(crate) async fn work<B>(
    broker: Broker<B>,
    name: String,
    killed_after: Option<usize>,
    there: impl FnOnce(),
) -> Result<(), Failure>
where
    B: CommitGroups + Transactions,
{
    let incoming = QuakeDelivered::stream(&broker)?;
    let counted: KeyedStream<QuakesCounted, B> = QuakesCounted::stream(&broker)?;
    let group = incoming.commit_group(GROUP)?;
    let member = group.join(MemberSettings::new().hand_over(Duration::from_secs(2))).await?;
    let mut pages = 0;
    loop {
        let read = member.read(PAGE, WAIT).await?;
        if read.is_empty() {
            if group.lag().await?.iter().all(|lag| lag.records == 0) {
                break;
            }
            continue;
        }
        pages += 1;
        let positions: Vec<_> = read.iter().map(tidings::Delivery::position).collect();
        let mut accounts = Accounts::new();
        for delivery in read {
            let quake = delivery.into_value()?;
            accounts.entry(quake.network).or_default().add(quake.hundredths);
        }
        tokio::time::sleep(WORK).await;
        if killed_after == Some(pages) {
            // Read and counted, and neither recorded: from here on nothing happens any more.
            there();
            return pending().await;
        }
        let mut unit = broker.unit();
        for (network, account) in accounts {
            unit = unit.append_keyed(&counted, &QuakesCounted { network, account, member: name.clone() });
        }
        // What was counted is there and the page is done, or neither. So nothing is counted twice and nothing left out,
        // whoever dies when.
        match unit.commit(&member, positions).record().await {
            Ok(_) => {}
            // The page came to another member meanwhile, or will come again: nothing of it is recorded.
            Err(refused) if refused.kind() == ErrorKind::Revoked => member.seek_to_committed().await?,
            Err(failed) => return Err(failed.into()),
        }
    }
    member.leave().await;
    Ok(())
}
