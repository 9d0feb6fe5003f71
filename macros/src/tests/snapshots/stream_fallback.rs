#[topic]
struct LedgerEntry;
#[automatically_derived]
impl ::tidings::StreamSpec for LedgerEntry {
    type Key = ();
    type Codec = ::tidings::codec::Json;
    const DECLARATION: ::tidings::Declaration = ::tidings::Declaration::stream(
        "ledger",
        1,
    );
    const REQUIRES: &'static [::tidings::capability::Capability] = &[
        ::tidings::capability::Capability::Dedup,
        ::tidings::capability::Capability::Cursors,
    ];
}
#[automatically_derived]
impl ::tidings::AppendEntry for LedgerEntry {}
#[automatically_derived]
impl<
    __B: ::tidings::capability::Log + ::tidings::capability::Dedup
        + ::tidings::capability::Cursors,
> ::tidings::StreamedBy<::tidings::Broker<__B>> for LedgerEntry {
    fn bind(
        __broker: &::tidings::Broker<__B>,
    ) -> ::tidings::__private::core::result::Result<
        ::tidings::Stream<Self, __B>,
        ::tidings::Error,
    > {
        ::tidings::__private::stream::<Self, __B>(__broker)
    }
}
#[allow(dead_code, single_use_lifetimes, unreachable_pub)]
impl LedgerEntry {
    /// Binds the stream `ledger` version 1 to a broker.
    ///
    /// # Errors
    ///
    /// When the broker is closed, refuses another declaration, has this one for another type or its address for another stream, or its backend was chosen at run time and lacks what is required.
    fn stream<__B>(
        __broker: &::tidings::Broker<__B>,
    ) -> ::tidings::__private::core::result::Result<
        ::tidings::Stream<Self, __B>,
        ::tidings::Error,
    >
    where
        __B: ::tidings::capability::Backend,
        Self: ::tidings::StreamedBy<::tidings::Broker<__B>>,
    {
        <Self as ::tidings::StreamedBy<::tidings::Broker<__B>>>::bind(__broker)
    }
}
::core::compile_error! {
    "`#[stream_spec]` stands twice on one item; keep one"
}
::core::compile_error! {
    "the first version is 1; write `version = 1`"
}
::core::compile_error! {
    "unknown capability `ack_group`; write `ack_groups`"
}
::core::compile_error! {
    "`dedup` is required twice; keep one"
}
::core::compile_error! {
    "the address holds ` `; write one without white space and control characters"
}
