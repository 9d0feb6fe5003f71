use std::time::Duration;

use super::crew::{Crew, note};
use crate::capability::AckGroups;
use crate::conformance::Subject;
use crate::conformance::rule::{Rule, limits};
use crate::stream::StreamSettings;

const RULE: Rule = Rule("worker-restart");
const DAY: Duration = Duration::from_hours(24);

/// `worker-restart`: a worker that starts again under its name gets its own pending entries first, once and counted, and
/// then the new ones.
pub async fn worker_restart<S: Subject<Backend: AckGroups>>(subject: S) {
    // More than one page of a history.
    for pending in [3, 600] {
        for name in ["a", "b"] {
            let crew = Crew::start(RULE, &subject).await;
            crew.append(0..pending + 4, 1).await;
            let dead = RULE.unwrap("a consumer", crew.group.consumer("a"));
            let most = usize::try_from(pending).expect("it is small");
            let taken = RULE.ok("reading", dead.read(most, Duration::ZERO)).await;
            RULE.same("what the dead one had", taken.len(), most);
            let own = (0..pending).map(|n| (n, 2));
            let new = (pending..pending + 4).map(|n| (n, 1));
            // The control: another name gets the new ones and no others.
            let (expected, left): (Vec<_>, _) =
                if name == "a" { (own.chain(new).collect(), 0..0) } else { (new.collect(), 0..pending) };
            let script = async {
                crew.handled(expected.len()).await;
                crew.pending_is("what was handled is acknowledged", left).await;
                crew.stop.stop();
            };
            crew.stopped(crew.worker(name).claim_after(DAY).read_ahead(64).run(note), script).await;
            RULE.same("its own first, then the new ones", crew.journal.began(), expected.clone());
        }
    }

    // Over several partitions each has its own.
    let crew = Crew::with(RULE, &subject, StreamSettings::new().partitions(4), limits()).await;
    crew.append(0..200, 50).await;
    let dead = RULE.unwrap("a consumer", crew.group.consumer("a"));
    let taken = RULE.ok("reading", dead.read(120, Duration::ZERO)).await;
    let script = async {
        crew.handled(200).await;
        crew.pending_is("everything is acknowledged", []).await;
        crew.stop.stop();
    };
    crew.stopped(crew.worker("a").claim_after(DAY).concurrency(4).run(note), script).await;
    crew.each_once("over several partitions", 0..200);
    let again = crew.journal.began().iter().filter(|(_, attempt)| *attempt == 2).count();
    RULE.same("what was delivered again, over several partitions", again, taken.len());
}
