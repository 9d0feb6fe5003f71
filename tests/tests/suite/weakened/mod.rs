//! The test of the tests: a backend that keeps every promise passes the suite, and one that breaks a promise fails the
//! property of that name.

mod backend;
mod commit;
mod cursors;
mod streams;

use std::panic::{AssertUnwindSafe, catch_unwind};

use backend::{Flaw, Weakened, Weakness};
use tidings::conformance;

struct Honest;

impl Weakness for Honest {
    const FLAW: Flaw = Flaw::Nothing;
}

conformance::topics!(honest, Weakened<Honest>, patterns, network);

/// Runs a property that must panic with the sentence that it tests.
fn must_fail(sentence: &str, property: impl FnOnce()) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(property)) else { panic!("`{sentence}` let the weakness pass") };
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
    assert!(text.starts_with(&format!("{sentence}: ")), "failed by `{text}`, not by `{sentence}`");
}

macro_rules! weaknesses {
    ($($name:ident: $flaw:ident fails $property:ident, $sentence:literal;)+) => {
        $(
            #[test]
            fn $name() {
                struct It;
                impl Weakness for It {
                    const FLAW: Flaw = Flaw::$flaw;
                }
                must_fail($sentence, || conformance::run(conformance::$property::<Weakened<It>>));
            }
        )+
    };
}

weaknesses! {
    drops_one_message: DropsOne fails topic_fan_out, "topic-fan-out";
    delivers_one_twice: DeliversTwice fails topic_fan_out, "topic-fan-out";
    reorders_two: Reorders fails topic_fan_out, "topic-fan-out";
    returns_before_it_is_subscribed: ReadyTooEarly fails topic_ready, "topic-ready";
    delivers_what_came_before: DeliversTheLastAgain fails topic_ready, "topic-ready";
    counts_wrong: CountsWrong fails topic_count, "topic-count";
    counts_where_nothing_counts: CountsWhereItCant fails topic_count, "topic-count";
    retries_a_publish_without_a_reply: RetriesPublish fails topic_lost_reply, "topic-publish-once";
    says_not_applied_without_a_reply: DeniesALostReply fails topic_lost_reply, "topic-publish-once";
    hides_a_disconnect: HidesADisconnect fails topic_uninterrupted, "topic-uninterrupted";
    hides_a_disconnect_from_a_supervision: HidesADisconnect fails supervise_gap, "supervise-gap";
    drops_when_it_is_full: DropsWhenFull fails topic_overflow_isolated, "topic-overflow-isolated";
    ends_a_slow_ones_neighbour: EndsTheNeighbour fails topic_overflow_isolated, "topic-overflow-isolated";
    matches_sibling_prefixes: MatchesSiblings fails topic_patterns, "topic-keys";
    subscribes_to_the_first_key_only: SubscribesToTheFirstKey fails topic_keys, "topic-keys";
    leaks_a_cancelled_set_up: LeaksACancelledSetUp fails topic_one_connection, "topic-shared-connection";
    unsubscribes_both_handles: UnsubscribesBoth fails topic_shared_connection, "topic-shared-connection";
    connects_for_each_subscription: ConnectsForEach fails topic_one_connection, "topic-shared-connection";
    hangs_in_close: HangsInClose fails close_waits, "close-waits";
    leaves_a_task_behind: LeavesATask fails close_waits, "close-waits";
    leaves_a_task_in_the_stats: LeavesATask fails stats_true, "stats-true";
    sends_a_batch_out_of_order: ReversesABatch fails topic_batch, "topic-batch";
    stops_in_a_batch: StopsABatch fails topic_batch, "topic-batch";
    spawns_when_it_is_built: SpawnsWhenBuilt fails broker_no_io, "broker-no-io";
    needs_the_server_when_it_is_built: NeedsTheServerWhenBuilt fails broker_no_io, "broker-no-io";
    never_notices_a_silent_peer: NeverAsksForALife fails topic_liveness, "topic-liveness";
    mangles_payloads: ManglesPayloads fails wire_vectors, "wire-vectors";
    folds_the_case_of_keys: FoldsTheCaseOfKeys fails key_injective, "key-injective";
    mixes_environments: MixesEnvironments fails address_injective, "address-injective";
    gives_up_for_good: GivesUpForGood fails supervise_gap, "supervise-gap";
}
