pub struct P<'a, T: Foo<U> + Bar, U, const N: usize>(
    pub Vec<T>,
    &'a U,
    pub Id<N>,
)
where
    T: Clone,
    U: Copy,
    Vec<T>: Into<U>;
#[automatically_derived]
impl<'a, T: Foo<U> + Bar, U, const N: usize> ::tidings::TopicSpec for P<'a, T, U, N>
where
    T: Clone,
    U: Copy,
    Vec<T>: Into<U>,
    Id<N>: ::tidings::TopicKey + ::tidings::__private::core::clone::Clone,
    Vec<T>: ::tidings::TopicKey + ::tidings::__private::core::clone::Clone,
{
    type Key = PKey<T, N>;
    type Codec = ::tidings::codec::Json;
    const DECLARATION: ::tidings::Declaration = ::tidings::Declaration::topic(
        "orders.placed",
        1,
    );
}
#[automatically_derived]
impl<'a, T: Foo<U> + Bar, U, const N: usize> ::tidings::PublishKeyed for P<'a, T, U, N>
where
    T: Clone,
    U: Copy,
    Vec<T>: Into<U>,
    Id<N>: ::tidings::TopicKey + ::tidings::__private::core::clone::Clone,
    Vec<T>: ::tidings::TopicKey + ::tidings::__private::core::clone::Clone,
{}
#[allow(dead_code, single_use_lifetimes, unreachable_pub)]
impl<'a, T: Foo<U> + Bar, U, const N: usize> P<'a, T, U, N>
where
    T: Clone,
    U: Copy,
    Vec<T>: Into<U>,
    Id<N>: ::tidings::TopicKey + ::tidings::__private::core::clone::Clone,
    Vec<T>: ::tidings::TopicKey + ::tidings::__private::core::clone::Clone,
{
    /// Binds the topic `orders.placed` version 1 to a broker.
    ///
    /// # Errors
    ///
    /// When the broker is closed, refuses another declaration, or has this one for another type.
    pub fn topic<__B>(
        __broker: &::tidings::Broker<__B>,
    ) -> ::tidings::__private::core::result::Result<
        ::tidings::KeyedTopic<Self, __B>,
        ::tidings::Error,
    >
    where
        __B: ::tidings::capability::PubSub,
    {
        ::tidings::__private::keyed_topic::<Self, __B>(__broker)
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
pub struct PKey<T: Bar, const N: usize>(
    /// The payload's field `2`.
    pub Id<N>,
    /// The payload's field `0`.
    pub Vec<T>,
)
where
    T: Clone;
#[automatically_derived]
impl<'a, T: Foo<U> + Bar, U, const N: usize> ::tidings::SelfKeyed for P<'a, T, U, N>
where
    T: Clone,
    U: Copy,
    Vec<T>: Into<U>,
    Id<N>: ::tidings::TopicKey + ::tidings::__private::core::clone::Clone,
    Vec<T>: ::tidings::TopicKey + ::tidings::__private::core::clone::Clone,
{
    fn topic_key(&self) -> <Self as ::tidings::TopicSpec>::Key {
        PKey(
            ::tidings::__private::core::clone::Clone::clone(&self.2),
            ::tidings::__private::core::clone::Clone::clone(&self.0),
        )
    }
    fn write_key(&self, __to: &mut ::tidings::key::KeyWriter<'_>) {
        <Id<N> as ::tidings::TopicKey>::write(&self.2, __to);
        <Vec<T> as ::tidings::TopicKey>::write(&self.0, __to);
    }
}
