//! One error type: which operation on which declaration and backend, and whether it may have happened.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::address::NameError;
use crate::capability::BackendError;
use crate::declaration::Declaration;
use crate::stream::Position;

/// A boxed error of anyone's.
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// Whether a failed operation may have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It did not happen: nothing was sent, or it was refused as a whole.
    NotApplied,
    /// It was sent and the answer was lost: it may have happened.
    Unknown,
}

/// Why a subscription ended. It sticks: every later receive says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The subscription's buffer reached its bound of messages or bytes.
    Overflow,
    /// The connection was lost, or the server stopped answering.
    Disconnected,
    /// A payload or key didn't decode.
    Malformed,
    /// A payload was larger than the subscription takes.
    TooLarge,
    /// The broker was closed.
    Closed,
    /// The group, or its stream, was gone.
    Vanished,
}

impl Cause {
    /// Returns the word that stands for the cause in logs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Disconnected => "disconnected",
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Closed => "closed",
            Self::Vanished => "vanished",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overflow => "its buffer overflowed",
            Self::Disconnected => "the connection was lost",
            Self::Malformed => "a message didn't decode",
            Self::TooLarge => "a payload was too large",
            Self::Closed => "the broker was closed",
            Self::Vanished => "the group or its stream was gone",
        })
    }
}

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The broker is closed or closing. Permanent.
    Closed,
    /// A name, key, option or argument breaks a rule. Permanent.
    Invalid,
    /// Another type is bound under the same kind, name and version. Permanent.
    Duplicate,
    /// The call was made from inside a callback that it would have to wait for. Permanent.
    Reentrant,
    /// A callback or a task panicked. Permanent.
    Panicked,
    /// A callback returned an error, which is the source. Permanent.
    Callback,
    /// The payload didn't encode. Permanent.
    Encode,
    /// The payload is over the limit for publishing. Permanent.
    TooLarge,
    /// No place came free in time, or every subscription is taken.
    Overloaded,
    /// The operation's timeout passed.
    Timeout,
    /// The server can't be reached, or the connection broke.
    Unavailable,
    /// The server refused: memory, state.
    Refused,
    /// The server refused the credentials or the right. Retrying needs a change there.
    Forbidden,
    /// The backend can't do what was asked. Permanent.
    Unsupported,
    /// The stream or the group isn't there; `ensure` creates it.
    Absent,
    /// It exists with other settings, or something stands against the change.
    Conflict,
    /// Records were removed before they could be read; [`Error::first_left`] is the first that is there.
    Trimmed {
        /// Whether something was removed unread for sure. A plain read on Redis can't tell.
        certain: bool,
    },
    /// The stream can take no more records: its ids are used up. Permanent.
    Exhausted,
    /// A record was handed out as often as its durable allows and never settled; [`Error::position`] is where it stands.
    Undelivered,
    /// The server was killed and has forgotten that it handed a delivery out. It hands it out again, so nothing is settled.
    Forgotten,
    /// The partitions belong to another member of the group, or the member's place does. Permanent.
    Revoked,
    /// Another producer of the same identity has taken over. Permanent.
    Fenced,
    /// One message didn't decode; the subscription goes on.
    Malformed,
    /// The subscription ended, with its cause.
    Ended(Cause),
    /// The deadline of a close passed; the text names what still runs.
    StillRunning,
}

impl ErrorKind {
    /// Returns the word that stands for the kind in logs (`error.type`).
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Invalid => "invalid",
            Self::Duplicate => "duplicate",
            Self::Reentrant => "reentrant",
            Self::Panicked => "panicked",
            Self::Callback => "callback",
            Self::Encode => "encode",
            Self::TooLarge => "too_large",
            Self::Overloaded => "overloaded",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
            Self::Forbidden => "forbidden",
            Self::Unsupported => "unsupported",
            Self::Absent => "absent",
            Self::Conflict => "conflict",
            Self::Trimmed { .. } => "trimmed",
            Self::Exhausted => "exhausted",
            Self::Undelivered => "undelivered",
            Self::Forgotten => "forgotten",
            Self::Revoked => "revoked",
            Self::Fenced => "fenced",
            Self::Malformed => "malformed",
            Self::Ended(cause) => cause.word(),
            Self::StillRunning => "still_running",
        }
    }
}

/// The operation that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Building a broker or a registry, or what they are built of.
    Build,
    /// Binding a declaration.
    Bind,
    /// Asking the server what it allows.
    Check,
    /// Publishing one message or several.
    Publish,
    /// Setting up a subscription.
    Subscribe,
    /// Taking a message from a subscription.
    Receive,
    /// Running a supervision.
    Supervise,
    /// Creating a stream, a group or a durable.
    Ensure,
    /// Changing the settings of a stream or a durable.
    Update,
    /// Removing a stream, a group or a consumer.
    Delete,
    /// Appending one record or several.
    Append,
    /// Reading a stream.
    Read,
    /// Taking deliveries of a group: new ones, a consumer's own or another's.
    Consume,
    /// Acknowledging deliveries, keeping them or giving them back.
    Settle,
    /// Moving a group without members.
    Reset,
    /// Looking at a group.
    Inspect,
    /// Removing records.
    Trim,
    /// Recording a unit.
    Record,
    /// Running a worker.
    Work,
    /// Closing a broker.
    Close,
}

impl Operation {
    /// Returns the word that stands for the operation in messages and logs (`messaging.operation.name`).
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Bind => "bind",
            Self::Check => "check",
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
            Self::Receive => "receive",
            Self::Supervise => "supervise",
            Self::Ensure => "ensure",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Append => "append",
            Self::Read => "read",
            Self::Consume => "consume",
            Self::Settle => "settle",
            Self::Reset => "reset",
            Self::Inspect => "inspect",
            Self::Trim => "trim",
            Self::Record => "record",
            Self::Work => "work",
            Self::Close => "close",
        }
    }
}

/// An error of any operation: its kind, what it was about, whether it may have happened, and its source.
///
/// It holds no payload, key or credential, and is cheap to clone.
#[derive(Clone)]
pub struct Error {
    inner: Arc<Inner>,
}

struct Inner {
    kind: ErrorKind,
    operation: Operation,
    declaration: Option<Declaration>,
    backend: Option<&'static str>,
    outcome: Outcome,
    detail: Option<Box<str>>,
    first_left: Option<Position>,
    position: Option<Position>,
    source: Option<BoxError>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, operation: Operation) -> Self {
        Self::build(Inner {
            kind,
            operation,
            declaration: None,
            backend: None,
            outcome: Outcome::NotApplied,
            detail: None,
            first_left: None,
            position: None,
            source: None,
        })
    }

    pub(crate) fn of_backend(failed: BackendError, operation: Operation) -> Self {
        let error = Self::new(failed.kind, operation).outcome_of(failed.outcome);
        // What these kinds mean is in the backend's words alone, so they aren't left to the sources.
        let told = matches!(
            failed.kind,
            ErrorKind::Absent | ErrorKind::Conflict | ErrorKind::Unsupported | ErrorKind::Exhausted
        );
        match failed.source {
            Some(source) if told => error.detail(source.to_string()),
            Some(source) => error.source_of(source),
            None => error,
        }
    }

    fn build(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Changes an error that nobody else holds yet; every caller has just made it.
    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            change(inner);
        }
        self
    }

    pub(crate) fn about(self, declaration: Declaration, backend: &'static str) -> Self {
        self.with(|inner| {
            inner.declaration = Some(declaration);
            inner.backend = Some(backend);
        })
    }

    pub(crate) fn on(self, backend: &'static str) -> Self {
        self.with(|inner| inner.backend = Some(backend))
    }

    pub(crate) fn detail(self, detail: impl Into<String>) -> Self {
        self.with(|inner| inner.detail = Some(detail.into().into_boxed_str()))
    }

    pub(crate) fn first_left_at(self, first: Position) -> Self {
        self.with(|inner| inner.first_left = Some(first))
    }

    pub(crate) fn at(self, position: Position) -> Self {
        self.with(|inner| inner.position = Some(position))
    }

    pub(crate) fn source_of(self, source: impl Into<BoxError>) -> Self {
        self.with(|inner| inner.source = Some(source.into()))
    }

    pub(crate) fn outcome_of(self, outcome: Outcome) -> Self {
        self.with(|inner| inner.outcome = outcome)
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns the operation that failed.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.inner.operation
    }

    /// Returns the declaration that the operation was about, if it was about one.
    #[must_use]
    pub fn declaration(&self) -> Option<Declaration> {
        self.inner.declaration
    }

    /// Returns the name of the backend's messaging system, if one was involved.
    #[must_use]
    pub fn backend(&self) -> Option<&'static str> {
        self.inner.backend
    }

    /// Says whether the operation may have happened.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.inner.outcome
    }

    /// The text that says more than the kind does: the detail, or what the sources say.
    pub(crate) fn reason(&self) -> Option<String> {
        if let Some(detail) = &self.inner.detail {
            return Some(detail.to_string());
        }
        let texts = self.untold(String::new());
        (!texts.is_empty()).then(|| texts.join(": "))
    }

    /// The texts of what is behind it, outermost first, without those that have been told, in `told` or by one before.
    fn untold(&self, mut told: String) -> Vec<String> {
        let mut texts = Vec::new();
        let mut next = behind(self);
        while let Some(error) = next {
            let text = error.to_string();
            if !told.contains(&text) {
                told.push_str(&text);
                // What comes next isn't told by the seam of the two.
                told.push('\n');
                texts.push(text);
            }
            next = behind(error);
        }
        texts
    }

    /// Returns why the subscription ended, where the kind is [`ErrorKind::Ended`].
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        match self.inner.kind {
            ErrorKind::Ended(cause) => Some(cause),
            _ => None,
        }
    }

    /// Returns the first position left of the partition, where the kind is [`ErrorKind::Trimmed`].
    #[must_use]
    pub fn first_left(&self) -> Option<Position> {
        self.inner.first_left
    }

    /// Returns where the record stands that it is about, where the kind is [`ErrorKind::Undelivered`].
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.inner.position
    }

    /// Says whether the same call can succeed later without a change.
    ///
    /// It doesn't say that a retry is safe: see [`outcome`](Self::outcome). A publish with an unknown outcome that is
    /// repeated may be heard twice. `Absent` counts, since another may `ensure` what isn't there; a loop that repeats
    /// where nobody will should end on it.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self.inner.kind,
            ErrorKind::Overloaded
                | ErrorKind::Timeout
                | ErrorKind::Unavailable
                | ErrorKind::Refused
                | ErrorKind::Malformed
                | ErrorKind::Absent
                | ErrorKind::Ended(Cause::Overflow | Cause::Disconnected | Cause::Malformed | Cause::TooLarge)
                | ErrorKind::StillRunning
        )
    }
}

/// What is behind an error, where that says more.
fn behind<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    // The detail names the limit that the codec's own error can't name, and says the rest in the same words.
    let told = |error: &Error| error.inner.kind == ErrorKind::TooLarge && error.inner.detail.is_some();
    error.source().filter(|_| !error.downcast_ref::<Error>().is_some_and(told))
}

/// An error with what is behind it, for those who print one line.
pub(crate) struct Whole<'a>(pub(crate) &'a Error);

impl fmt::Display for Whole<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

/// With `{:#}` what is behind it follows, joined by colons, and each text once.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.alone(f)?;
        if f.alternate() {
            let told = fmt::from_fn(|f| self.alone(f)).to_string();
            self.untold(told).iter().try_for_each(|text| write!(f, ": {text}"))?;
        }
        Ok(())
    }
}

impl Error {
    /// Writes what failed, without what is behind it.
    fn alone(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.inner;
        f.write_str(inner.operation.word())?;
        if let Some(declaration) = inner.declaration {
            write!(f, " `{declaration}`")?;
        }
        if let Some(backend) = inner.backend {
            write!(f, " on {backend}")?;
        }
        f.write_str(": ")?;
        match inner.kind {
            ErrorKind::Closed => f.write_str("the broker is closed")?,
            ErrorKind::Invalid => f.write_str("invalid")?,
            ErrorKind::Duplicate => f.write_str("another type is bound under this name and version")?,
            ErrorKind::Reentrant => f.write_str("called from inside a callback that it would wait for")?,
            ErrorKind::Panicked => f.write_str("panicked")?,
            ErrorKind::Callback => f.write_str("a callback failed")?,
            ErrorKind::Encode => f.write_str("the payload can't be encoded")?,
            ErrorKind::TooLarge => f.write_str("the payload is too large")?,
            ErrorKind::Overloaded => f.write_str("overloaded")?,
            ErrorKind::Timeout => f.write_str("timed out")?,
            ErrorKind::Unavailable => f.write_str("the server is unavailable")?,
            ErrorKind::Refused => f.write_str("the server refused")?,
            ErrorKind::Forbidden => f.write_str("the server refused the credentials or the right")?,
            ErrorKind::Unsupported => f.write_str("unsupported")?,
            ErrorKind::Absent => f.write_str("it isn't there")?,
            ErrorKind::Conflict => f.write_str("something stands against it")?,
            ErrorKind::Trimmed { certain: true } => f.write_str("records were removed before they were read")?,
            ErrorKind::Trimmed { certain: false } => {
                f.write_str("records may have been removed before they were read")?;
            }
            ErrorKind::Exhausted => f.write_str("the stream's ids are used up")?,
            ErrorKind::Undelivered => {
                f.write_str("a record was handed out as often as it may be, and never settled")?;
            }
            ErrorKind::Forgotten => f.write_str("the server has forgotten the delivery, which comes again")?,
            ErrorKind::Revoked => f.write_str("another member of the group has taken over")?,
            ErrorKind::Fenced => f.write_str("another producer of the same identity has taken over")?,
            ErrorKind::Malformed => f.write_str("a message didn't decode")?,
            ErrorKind::Ended(cause) => write!(f, "the subscription ended: {cause}")?,
            ErrorKind::StillRunning => f.write_str("the deadline passed")?,
        }
        if let Some(detail) = &inner.detail {
            write!(f, "; {detail}")?;
        }
        if let Some(first) = inner.first_left {
            write!(f, "; the first left is `{first}`")?;
        }
        if let Some(position) = inner.position {
            write!(f, "; it stands at `{position}`")?;
        }
        if inner.outcome == Outcome::Unknown {
            f.write_str("; it may have happened")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.inner;
        f.debug_struct("Error")
            .field("kind", &inner.kind)
            .field("operation", &inner.operation)
            .field("declaration", &inner.declaration.map(|declaration| declaration.to_string()))
            .field("backend", &inner.backend)
            .field("outcome", &inner.outcome)
            .field("detail", &inner.detail)
            .field("source", &inner.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.source.as_deref().map(|source| source as _)
    }
}

/// `Invalid`, with the rule that the name breaks.
impl From<NameError> for Error {
    fn from(wrong: NameError) -> Self {
        Self::new(ErrorKind::Invalid, Operation::Build).detail(wrong.to_string())
    }
}

/// An error of a callback: any error, by `?`.
///
/// It implements no `std::error::Error` itself, so that every type that does converts into it.
pub struct HandlerError(BoxError);

impl HandlerError {
    pub(crate) fn into_inner(self) -> BoxError {
        self.0
    }
}

impl<E: Into<BoxError>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::unencoded;
    use crate::codec::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind};

    #[test]
    fn an_error_tells_what_is_behind_it_where_it_is_asked_to() {
        let failed = BackendError::new(ErrorKind::Unavailable, Outcome::Unknown).with_source("it is raining");
        let error = Error::of_backend(failed, Operation::Append).on("nats");
        assert_eq!(error.to_string(), "append on nats: the server is unavailable; it may have happened");
        assert_eq!(format!("{error:#}"), format!("{error}: it is raining"));
        assert_eq!(Whole(&error).to_string(), format!("{error:#}"));
    }

    #[test]
    fn no_text_is_told_twice() {
        let wrong = DecodeError::new(DecodeErrorKind::Mismatch).at("a").position(1, 8);
        let ended = Error::new(ErrorKind::Ended(Cause::Malformed), Operation::Receive);
        let ended = ended.detail(wrong.to_string()).source_of(wrong.clone());
        assert_eq!(format!("{ended:#}"), ended.to_string());
        assert!(ended.to_string().contains("`a`: the value has the wrong type, range or length (line 1, column 8)"));

        let outer = Error::new(ErrorKind::Callback, Operation::Work).source_of(ended.clone());
        assert_eq!(format!("{outer:#}"), format!("{outer}: {ended}"));
        assert_eq!(outer.reason(), Some(ended.to_string()));
        let bare = Error::new(ErrorKind::Malformed, Operation::Work).source_of(wrong.clone());
        assert_eq!(format!("{bare:#}"), format!("{bare}: {wrong}"));
    }

    #[test]
    fn what_is_too_large_is_told_by_its_limit_alone() {
        let wrong = EncodeError::new(EncodeErrorKind::TooLarge { limit: 64 });
        let (kind, detail) = unencoded(&wrong, "publish_bytes");
        let error = Error::new(kind, Operation::Publish).detail(detail).source_of(wrong);
        let text =
            "publish: the payload is too large; `publish_bytes` is 64; raise it, or send a reference to the data";
        assert_eq!(format!("{error:#}"), text);
        assert!(StdError::source(&error).is_some_and(<dyn StdError>::is::<EncodeError>));
        let outer = Error::new(ErrorKind::Callback, Operation::Work).source_of(error);
        assert_eq!(format!("{outer:#}"), format!("{outer}: {text}"));
        // What a server says of it is told.
        let failed = BackendError::new(ErrorKind::TooLarge, Outcome::NotApplied).with_source("over its own limit");
        let error = Error::of_backend(failed, Operation::Append);
        assert_eq!(format!("{error:#}"), "append: the payload is too large: over its own limit");
    }
}
