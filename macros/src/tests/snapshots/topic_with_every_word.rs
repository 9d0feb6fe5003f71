#[cfg(feature = "a")]
pub(crate) enum Event {
    A { x: u8 },
    B,
}
#[cfg(feature = "a")]
#[automatically_derived]
impl ::bus::tidings::TopicSpec for Event {
    type Key = keys::Pair<u8, u16>;
    type Codec = codecs::Cbor;
    const DECLARATION: ::bus::tidings::Declaration = ::bus::tidings::Declaration::topic(
        "a",
        16,
    );
}
#[cfg(feature = "a")]
#[automatically_derived]
impl ::bus::tidings::PublishTopic for Event {}
#[cfg(feature = "a")]
#[allow(dead_code, single_use_lifetimes, unreachable_pub)]
impl Event {
    /// Binds the topic `a` version 16 to a broker.
    ///
    /// # Errors
    ///
    /// When the broker is closed, refuses another declaration, or has this one for another type.
    pub(crate) fn bound<__B>(
        __broker: &::bus::tidings::Broker<__B>,
    ) -> ::bus::tidings::__private::core::result::Result<
        ::bus::tidings::Topic<Self, __B>,
        ::bus::tidings::Error,
    >
    where
        __B: ::bus::tidings::capability::PubSub,
    {
        ::bus::tidings::__private::topic::<Self, __B>(__broker)
    }
}
