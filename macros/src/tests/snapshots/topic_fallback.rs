struct OrderPlaced {
    region: String,
    order: u64,
}
#[automatically_derived]
impl ::tidings::TopicSpec for OrderPlaced {
    type Key = OrderPlacedKey;
    type Codec = ::tidings::codec::Json;
    const DECLARATION: ::tidings::Declaration = ::tidings::Declaration::topic(
        "invalid",
        1,
    );
}
#[automatically_derived]
impl ::tidings::PublishKeyed for OrderPlaced {}
#[allow(dead_code, single_use_lifetimes, unreachable_pub)]
impl OrderPlaced {
    /// Binds the topic `invalid` version 1 to a broker.
    ///
    /// # Errors
    ///
    /// When the broker is closed, refuses another declaration, or has this one for another type.
    fn topic<__B>(
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
/// The key of [`OrderPlaced`], made of the payload's own fields.
#[derive(
    ::tidings::TopicKey,
    ::tidings::__private::core::clone::Clone,
    ::tidings::__private::core::fmt::Debug,
    ::tidings::__private::core::cmp::PartialEq,
    ::tidings::__private::core::cmp::Eq,
    ::tidings::__private::core::hash::Hash
)]
#[allow(dead_code, unreachable_pub)]
struct OrderPlacedKey {
    /// The payload's field `region`.
    region: String,
    /// The payload's field `order`.
    order: u64,
}
#[automatically_derived]
impl ::tidings::SelfKeyed for OrderPlaced {
    fn topic_key(&self) -> <Self as ::tidings::TopicSpec>::Key {
        OrderPlacedKey {
            region: ::tidings::__private::core::clone::Clone::clone(&self.region),
            order: ::tidings::__private::core::clone::Clone::clone(&self.order),
        }
    }
    fn write_key(&self, __to: &mut ::tidings::key::KeyWriter<'_>) {
        <String as ::tidings::TopicKey>::write(&self.region, __to);
        <u64 as ::tidings::TopicKey>::write(&self.order, __to);
    }
}
::core::compile_error! {
    "unknown word `nmae`; write `name` (the words are `name`, `version`, `key`, `codec`, `crate` and `bind`)"
}
::core::compile_error! {
    "`codec` has no value; write `codec = path::to::Codec`"
}
::core::compile_error! {
    "`#[topic]` stands twice on one item; keep one"
}
::core::compile_error! {
    "the name `Orders_Placed` holds `O`, but only `a-z`, `0-9`, `-` and `.` are allowed; write `orders-placed`"
}
::core::compile_error! {
    "the first version is 1; write `version = 1`"
}
::core::compile_error! {
    "the payload has no field `regoin`; write `region`"
}
::core::compile_error! {
    "the field `order` is twice in the key; keep one"
}
