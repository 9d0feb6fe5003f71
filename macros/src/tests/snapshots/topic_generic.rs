struct P<'a, T: Foo = u8, const N: usize = 3>(
    &'a [T; N],
)
where
    T: Clone;
#[automatically_derived]
impl<'a, T: Foo, const N: usize> ::tidings::TopicSpec for P<'a, T, N>
where
    T: Clone,
{
    type Key = ();
    type Codec = ::tidings::codec::Json;
    const DECLARATION: ::tidings::Declaration = ::tidings::Declaration::topic(
        "orders.placed",
        1,
    );
}
#[automatically_derived]
impl<'a, T: Foo, const N: usize> ::tidings::PublishTopic for P<'a, T, N>
where
    T: Clone,
{}
#[allow(dead_code, single_use_lifetimes, unreachable_pub)]
impl<'a, T: Foo, const N: usize> P<'a, T, N>
where
    T: Clone,
{
    /// Binds the topic `orders.placed` version 1 to a broker.
    ///
    /// # Errors
    ///
    /// When the broker is closed, refuses another declaration, or has this one for another type.
    fn topic<__B>(
        __broker: &::tidings::Broker<__B>,
    ) -> ::tidings::__private::core::result::Result<
        ::tidings::Topic<Self, __B>,
        ::tidings::Error,
    >
    where
        __B: ::tidings::capability::PubSub,
    {
        ::tidings::__private::topic::<Self, __B>(__broker)
    }
}
