//! Spans and events under OpenTelemetry's messaging names. Never a payload, key or credential.
//!
//! Everything goes to the target `tidings`. Operations are spans at `DEBUG`, single messages events at `TRACE`, causes
//! and gaps events at `WARN`. Without a subscriber each costs one comparison.

use std::future::Future;

use tracing::{Instrument, Span, debug_span};

use crate::declaration::Declaration;
use crate::error::{Cause, Error, Operation, Outcome};
use crate::stream::{Position, Receipt};
use crate::topic::{Ended, Gap, Heard};

/// What an operation's span records at its end.
pub(crate) trait Told {
    fn tell(&self, span: &Span);
}

impl Told for Heard {
    fn tell(&self, span: &Span) {
        if let Some(count) = self.count() {
            span.record("tidings.heard", count);
        }
    }
}

impl Told for Receipt {
    fn tell(&self, _: &Span) {}
}

impl<R> Told for Vec<Result<R, Error>> {
    fn tell(&self, span: &Span) {
        span.record("tidings.failed", self.iter().filter(|outcome| outcome.is_err()).count());
    }
}

macro_rules! operation {
    ($operation:literal, $type:literal, $kind:literal, $declaration:expr, $system:expr, $count:expr) => {
        debug_span!(
            target: "tidings",
            $operation,
            "otel.kind" = $kind,
            "messaging.system" = $system,
            "messaging.destination.name" = %$declaration,
            "messaging.operation.name" = $operation,
            "messaging.operation.type" = $type,
            messaging.batch.message_count = $count,
            "tidings.outcome" = tracing::field::Empty,
            "tidings.heard" = tracing::field::Empty,
            "tidings.failed" = tracing::field::Empty,
            "error.type" = tracing::field::Empty,
        )
    };
}

fn record<T>(span: &Span, result: &Result<T, Error>, tell: impl FnOnce(&T, &Span)) {
    match result {
        Ok(done) => {
            span.record("tidings.outcome", "applied");
            tell(done, span);
        }
        Err(failed) => {
            span.record("tidings.outcome", outcome(failed));
            span.record("error.type", failed.kind().word());
        }
    }
}

fn outcome(error: &Error) -> &'static str {
    match error.outcome() {
        Outcome::NotApplied => "not_applied",
        Outcome::Unknown => "unknown",
    }
}

/// Makes a publish's span. The caller enters it around the whole operation, whose last step is [`published`]: no
/// wrapper of the operation's future stands between, since moving it costs more than the span.
pub(crate) fn publish(declaration: Declaration, system: &'static str, count: usize) -> Span {
    operation!("publish", "send", "producer", declaration, system, count)
}

/// Makes an append's span, to be used as a publish's.
pub(crate) fn append(declaration: Declaration, system: &'static str, count: usize) -> Span {
    operation!("append", "send", "producer", declaration, system, count)
}

/// Records how the publish or append ended whose span is entered.
pub(crate) fn published<T: Told>(result: &Result<T, Error>) {
    record(&Span::current(), result, T::tell);
}

pub(crate) async fn subscribe<T>(
    declaration: Declaration,
    system: &'static str,
    operation: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let span = operation!("subscribe", "receive", "client", declaration, system, 0_usize);
    let result = operation.instrument(span.clone()).await;
    record(&span, &result, |_, _| ());
    result
}

/// Puts a callback into a span of its own, so that what it logs and starts belongs to it.
pub(crate) fn process<F: Future>(
    declaration: Declaration,
    system: &'static str,
    callback: F,
) -> impl Future<Output = F::Output> {
    callback.instrument(operation!("process", "process", "consumer", declaration, system, 1_usize))
}

/// Puts a unit of so many appends into a span of its own.
pub(crate) async fn unit<T>(
    system: &'static str,
    count: usize,
    recording: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let span = debug_span!(
        target: "tidings",
        "record",
        "otel.kind" = "producer",
        "messaging.system" = system,
        "messaging.operation.name" = Operation::Record.word(),
        "messaging.operation.type" = "send",
        messaging.batch.message_count = count,
        "tidings.outcome" = tracing::field::Empty,
        "error.type" = tracing::field::Empty,
    );
    let result = recording.instrument(span.clone()).await;
    record(&span, &result, |_, _| ());
    result
}

/// Puts an operation on a stream into a span of its own.
pub(crate) async fn operation<T>(
    operation: Operation,
    declaration: Declaration,
    system: &'static str,
    operating: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let span = debug_span!(
        target: "tidings",
        "operation",
        "otel.name" = operation.word(),
        "otel.kind" = "client",
        "messaging.system" = system,
        "messaging.destination.name" = %declaration,
        "messaging.operation.name" = operation.word(),
        "tidings.outcome" = tracing::field::Empty,
        "error.type" = tracing::field::Empty,
    );
    if span.is_none() {
        return operating.await;
    }
    let result = operating.instrument(span.clone()).await;
    record(&span, &result, |_, _| ());
    result
}

macro_rules! event {
    ($level:ident, $declaration:expr, $system:expr, $operation:literal, { $($fields:tt)* }, $message:literal) => {
        tracing::event!(
            target: "tidings",
            tracing::Level::$level,
            {
                "messaging.system" = $system,
                "messaging.destination.name" = %$declaration,
                "messaging.operation.name" = $operation,
                $($fields)*
            },
            $message
        )
    };
}

pub(crate) fn received(declaration: Declaration, system: &'static str, bytes: usize) {
    event!(TRACE, declaration, system, "receive", { "messaging.message.body.size" = bytes }, "received");
}

/// A message on a channel that lies below a prefix without being one of the topic's.
pub(crate) fn foreign(declaration: Declaration, system: &'static str) {
    event!(
        DEBUG,
        declaration,
        system,
        "receive",
        {},
        "a message came on a channel with another number of segments, which is none of this topic's"
    );
}

pub(crate) fn malformed(declaration: Declaration, system: &'static str, failed: &Error) {
    event!(
        WARN, declaration, system, "receive", { "error.type" = Cause::Malformed.word(), reason = failed.reason() },
        "a message didn't decode"
    );
}

pub(crate) fn ended(declaration: Declaration, system: &'static str, cause: Cause, detail: Option<&str>) {
    if cause == Cause::Closed {
        event!(DEBUG, declaration, system, "receive", {}, "the subscription ended with its broker");
    } else {
        event!(
            WARN, declaration, system, "receive", { "error.type" = cause.word(), reason = detail },
            "the subscription ended"
        );
    }
}

pub(crate) fn attempt_failed(declaration: Declaration, system: &'static str, failed: &Error, attempts: u32) {
    event!(
        WARN, declaration, system, "supervise", { "error.type" = failed.kind().word(), reason = failed.reason(), "tidings.attempts" = attempts },
        "couldn't subscribe; trying again"
    );
}

pub(crate) fn assigned(declaration: Declaration, system: &'static str, partitions: &[u32]) {
    event!(DEBUG, declaration, system, "receive", { "tidings.partitions" = ?partitions }, "partitions were assigned");
}

pub(crate) fn revoked(declaration: Declaration, system: &'static str, partitions: &[u32]) {
    event!(
        INFO,
        declaration,
        system,
        "receive",
        { "tidings.partitions" = ?partitions },
        "partitions are no longer this member's"
    );
}

pub(crate) fn trimmed(
    declaration: Declaration,
    system: &'static str,
    after: Option<Position>,
    first: Position,
    certain: bool,
) {
    event!(
        WARN, declaration, system, "receive",
        { "tidings.after" = after.map(tracing::field::display), "tidings.first" = %first, "tidings.certain" = certain },
        "records were removed before they were read"
    );
}

pub(crate) fn undelivered(declaration: Declaration, system: &'static str, position: Position) {
    event!(
        ERROR, declaration, system, "receive", { "tidings.position" = %position },
        "a record was handed out as often as its durable allows, and never settled"
    );
}

pub(crate) fn work_interrupted(declaration: Declaration, system: &'static str, failed: &Error, attempts: u32) {
    event!(
        WARN, declaration, system, "work", { "error.type" = failed.kind().word(), reason = failed.reason(), "tidings.attempts" = attempts },
        "the worker was interrupted; it tries to go on"
    );
}

pub(crate) fn gap(declaration: Declaration, system: &'static str, gap: &Gap) {
    let lasted = u64::try_from(gap.lasted.as_millis()).unwrap_or(u64::MAX);
    event!(
        WARN, declaration, system, "supervise",
        { "error.type" = gap.cause.word(), "tidings.attempts" = gap.attempts, "tidings.gap_ms" = lasted },
        "delivery resumed after a gap"
    );
}

pub(crate) fn supervision_ended(declaration: Declaration, system: &'static str, ended: Ended) {
    event!(DEBUG, declaration, system, "supervise", { "tidings.outcome" = ?ended }, "the supervision ended");
}

pub(crate) fn unsettled(
    declaration: Declaration,
    system: &'static str,
    position: Position,
    attempt: u32,
    failed: &Error,
) {
    event!(
        WARN, declaration, system, "work",
        { "error.type" = failed.kind().word(), reason = failed.reason(), "tidings.position" = %position, "tidings.attempt" = attempt },
        "a delivery stays unsettled, and its key is paused"
    );
}

pub(crate) fn retrying(
    declaration: Declaration,
    system: &'static str,
    position: Position,
    attempt: u32,
    failed: &Error,
) {
    event!(
        INFO, declaration, system, "work",
        { "error.type" = failed.kind().word(), reason = failed.reason(), "tidings.position" = %position, "tidings.attempt" = attempt },
        "a delivery failed and comes again"
    );
}

pub(crate) fn lost(declaration: Declaration, system: &'static str, count: usize) {
    event!(
        WARN,
        declaration,
        system,
        "work",
        { "tidings.lost" = count },
        "entries were removed from the stream while they were pending"
    );
}

pub(crate) fn task_panicked(name: &'static str) {
    tracing::error!(target: "tidings", task = name, "a task panicked; what it served is told by its own ending");
}
