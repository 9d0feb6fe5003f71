#[derive(Serialize)]
pub struct LedgerEntry {
    cents: i64,
}
#[automatically_derived]
impl ::tidings::StreamSpec for LedgerEntry {
    type Key = AccountId;
    type Codec = ::tidings::codec::Json;
    const DECLARATION: ::tidings::Declaration = ::tidings::Declaration::stream(
        "ledger.entries",
        1,
    );
}
#[automatically_derived]
impl ::tidings::AppendEntry for LedgerEntry {}
#[automatically_derived]
impl<__B: ::tidings::capability::Log> ::tidings::StreamedBy<::tidings::Broker<__B>>
for LedgerEntry {
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
    /// Binds the stream `ledger.entries` version 1 to a broker.
    ///
    /// # Errors
    ///
    /// When the broker is closed, refuses another declaration, has this one for another type or its address for another stream, or its backend was chosen at run time and lacks what is required.
    pub fn stream<__B>(
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
