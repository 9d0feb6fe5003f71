#[cfg(feature = "a")]
pub(crate) enum Entry {
    A { x: u8 },
    B,
}
#[cfg(feature = "a")]
#[automatically_derived]
impl ::bus::tidings::StreamSpec for Entry {
    type Key = keys::Pair<u8, u16>;
    type Codec = codecs::Cbor;
    const DECLARATION: ::bus::tidings::Declaration = ::bus::tidings::Declaration::stream(
        "a",
        2,
    );
    const REQUIRES: &'static [::bus::tidings::capability::Capability] = &[
        ::bus::tidings::capability::Capability::AckGroups,
        ::bus::tidings::capability::Capability::CommitGroups,
        ::bus::tidings::capability::Capability::Cursors,
        ::bus::tidings::capability::Capability::Dedup,
        ::bus::tidings::capability::Capability::InboxMarks,
        ::bus::tidings::capability::Capability::Tombstones,
        ::bus::tidings::capability::Capability::Transactions,
    ];
    const ADDRESS: ::bus::tidings::__private::core::option::Option<
        &'static ::bus::tidings::__private::core::primitive::str,
    > = ::bus::tidings::__private::core::option::Option::Some("legacy-a");
}
#[cfg(feature = "a")]
#[automatically_derived]
impl ::bus::tidings::AppendEntry for Entry {}
#[cfg(feature = "a")]
#[automatically_derived]
impl<
    __B: ::bus::tidings::capability::Log + ::bus::tidings::capability::AckGroups
        + ::bus::tidings::capability::CommitGroups + ::bus::tidings::capability::Cursors
        + ::bus::tidings::capability::Dedup + ::bus::tidings::capability::InboxMarks
        + ::bus::tidings::capability::Tombstones
        + ::bus::tidings::capability::Transactions,
> ::bus::tidings::StreamedBy<::bus::tidings::Broker<__B>> for Entry {
    fn bind(
        __broker: &::bus::tidings::Broker<__B>,
    ) -> ::bus::tidings::__private::core::result::Result<
        ::bus::tidings::Stream<Self, __B>,
        ::bus::tidings::Error,
    > {
        ::bus::tidings::__private::stream::<Self, __B>(__broker)
    }
}
#[cfg(feature = "a")]
#[allow(dead_code, single_use_lifetimes, unreachable_pub)]
impl Entry {
    /// Binds the stream `a` version 2 to a broker.
    ///
    /// # Errors
    ///
    /// When the broker is closed, refuses another declaration, has this one for another type or its address for another stream, or its backend was chosen at run time and lacks what is required.
    pub(crate) fn bound<__B>(
        __broker: &::bus::tidings::Broker<__B>,
    ) -> ::bus::tidings::__private::core::result::Result<
        ::bus::tidings::Stream<Self, __B>,
        ::bus::tidings::Error,
    >
    where
        __B: ::bus::tidings::capability::Backend,
        Self: ::bus::tidings::StreamedBy<::bus::tidings::Broker<__B>>,
    {
        <Self as ::bus::tidings::StreamedBy<::bus::tidings::Broker<__B>>>::bind(__broker)
    }
}
