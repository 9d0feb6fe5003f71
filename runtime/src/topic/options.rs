/// What a subscription does with a message whose payload or key doesn't decode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMalformed {
    /// It ends with [`Cause::Malformed`](crate::Cause::Malformed).
    #[default]
    End,
    /// It returns one `Malformed` error in the message's place and goes on.
    Report,
}

/// What differs for the subscriptions of one handle from the broker's [`Limits`](crate::Limits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscribeOptions {
    /// What happens to a message that doesn't decode. Default: the subscription ends.
    pub on_malformed: OnMalformed,
    /// Messages buffered before `Overflow`, 1 to 65,536. Default: the broker's limit.
    pub buffer_messages: Option<usize>,
    /// Bytes buffered before `Overflow`, 1 B to 64 MiB. Default: the broker's limit.
    pub buffer_bytes: Option<usize>,
    /// Bytes of one payload before `TooLarge`, 1 B to 1 MiB. Default: the broker's limit.
    pub receive_bytes: Option<usize>,
}

impl SubscribeOptions {
    /// Starts with the broker's limits, and ending on a malformed message.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what happens to a message that doesn't decode.
    #[must_use]
    pub fn on_malformed(mut self, on_malformed: OnMalformed) -> Self {
        self.on_malformed = on_malformed;
        self
    }

    /// Sets the messages buffered before `Overflow`.
    #[must_use]
    pub fn buffer_messages(mut self, messages: usize) -> Self {
        self.buffer_messages = Some(messages);
        self
    }

    /// Sets the bytes buffered before `Overflow`.
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer_bytes = Some(bytes);
        self
    }

    /// Sets the bytes of one payload before `TooLarge`.
    #[must_use]
    pub fn receive_bytes(mut self, bytes: usize) -> Self {
        self.receive_bytes = Some(bytes);
        self
    }
}
