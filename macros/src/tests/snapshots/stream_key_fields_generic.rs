pub struct P<'a, T: Foo = u8, const N: usize = 3>(
    pub Vec<T>,
    &'a [u8; N],
)
where
    T: Clone;
#[automatically_derived]
impl<'a, T: Foo, const N: usize> ::tidings::StreamSpec for P<'a, T, N>
where
    T: Clone,
    Vec<T>: ::tidings::TopicKey + ::tidings::__private::core::clone::Clone,
{
    type Key = PStreamKey<T>;
    type Codec = ::tidings::codec::Json;
    const DECLARATION: ::tidings::Declaration = ::tidings::Declaration::stream(
        "ledger.entries",
        1,
    );
    const REQUIRES: &'static [::tidings::capability::Capability] = &[
        ::tidings::capability::Capability::AckGroups,
    ];
}
#[automatically_derived]
impl<'a, T: Foo, const N: usize> ::tidings::AppendKeyed for P<'a, T, N>
where
    T: Clone,
    Vec<T>: ::tidings::TopicKey + ::tidings::__private::core::clone::Clone,
{}
#[automatically_derived]
impl<
    'a,
    T: Foo,
    const N: usize,
    __B: ::tidings::capability::Log + ::tidings::capability::AckGroups,
> ::tidings::StreamedBy<::tidings::Broker<__B>> for P<'a, T, N>
where
    T: Clone,
    Vec<T>: ::tidings::TopicKey + ::tidings::__private::core::clone::Clone,
{
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
impl<'a, T: Foo, const N: usize> P<'a, T, N>
where
    T: Clone,
    Vec<T>: ::tidings::TopicKey + ::tidings::__private::core::clone::Clone,
{
    /// Binds the stream `ledger.entries` version 1 to a broker.
    ///
    /// # Errors
    ///
    /// When the broker is closed, refuses another declaration, has this one for another type or its address for another stream, or its backend was chosen at run time and lacks what is required.
    pub fn stream<__B>(
        __broker: &::tidings::Broker<__B>,
    ) -> ::tidings::__private::core::result::Result<
        ::tidings::KeyedStream<Self, __B>,
        ::tidings::Error,
    >
    where
        __B: ::tidings::capability::Backend,
        Self: ::tidings::StreamedBy<::tidings::Broker<__B>>,
    {
        ::tidings::__private::keyed_stream::<Self, __B>(__broker)
    }
}
/// The key of [`P`], made of the payload's own fields.
#[derive(
    ::tidings::TopicKey,
    ::tidings::__private::core::clone::Clone,
    ::tidings::__private::core::fmt::Debug,
    ::tidings::__private::core::cmp::PartialEq,
    ::tidings::__private::core::cmp::Eq,
    ::tidings::__private::core::hash::Hash
)]
#[allow(dead_code, unreachable_pub)]
pub struct PStreamKey<T: Foo = u8>(
    /// The payload's field `0`.
    pub Vec<T>,
)
where
    T: Clone;
#[automatically_derived]
impl<'a, T: Foo, const N: usize> ::tidings::StreamKeyed for P<'a, T, N>
where
    T: Clone,
    Vec<T>: ::tidings::TopicKey + ::tidings::__private::core::clone::Clone,
{
    fn stream_key(&self) -> <Self as ::tidings::StreamSpec>::Key {
        PStreamKey(::tidings::__private::core::clone::Clone::clone(&self.0))
    }
    fn write_stream_key(&self, __to: &mut ::tidings::key::KeyWriter<'_>) {
        <Vec<T> as ::tidings::TopicKey>::write(&self.0, __to);
    }
}
