#[derive(Serialize)]
pub struct OrderPlaced {
    order: u64,
}
#[automatically_derived]
impl ::tidings::TopicSpec for OrderPlaced {
    type Key = OrderKey;
    type Codec = ::tidings::codec::Json;
    const DECLARATION: ::tidings::Declaration = ::tidings::Declaration::topic(
        "orders.placed",
        1,
    );
}
#[automatically_derived]
impl ::tidings::PublishTopic for OrderPlaced {}
#[allow(dead_code, single_use_lifetimes, unreachable_pub)]
impl OrderPlaced {
    /// Binds the topic `orders.placed` version 1 to a broker.
    ///
    /// # Errors
    ///
    /// When the broker is closed, refuses another declaration, or has this one for another type.
    pub fn topic<__B>(
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
