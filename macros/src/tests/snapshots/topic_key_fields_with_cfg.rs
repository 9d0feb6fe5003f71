#[cfg_attr(a, cfg(b), derive(Debug))]
pub(super) struct OrderPlaced {
    #[cfg(feature = "a")]
    region: String,
    #[cfg(not(feature = "a"))]
    #[serde(skip)]
    region: u8,
    /// Not copied.
    r#type: u64,
    rest: f64,
}
#[cfg_attr(a, cfg(b))]
#[automatically_derived]
impl facade::tidings::TopicSpec for OrderPlaced {
    type Key = OrderPlacedKey;
    type Codec = facade::tidings::codec::Json;
    const DECLARATION: facade::tidings::Declaration = facade::tidings::Declaration::topic(
        "orders.placed",
        1,
    );
}
#[cfg_attr(a, cfg(b))]
#[automatically_derived]
impl facade::tidings::PublishKeyed for OrderPlaced {}
#[cfg_attr(a, cfg(b))]
#[allow(dead_code, single_use_lifetimes, unreachable_pub)]
impl OrderPlaced {
    /// Binds the topic `orders.placed` version 1 to a broker.
    ///
    /// # Errors
    ///
    /// When the broker is closed, refuses another declaration, or has this one for another type.
    pub(super) fn topic<__B>(
        __broker: &facade::tidings::Broker<__B>,
    ) -> facade::tidings::__private::core::result::Result<
        facade::tidings::KeyedTopic<Self, __B>,
        facade::tidings::Error,
    >
    where
        __B: facade::tidings::capability::PubSub,
    {
        facade::tidings::__private::keyed_topic::<Self, __B>(__broker)
    }
}
#[cfg_attr(a, cfg(b))]
/// The key of [`OrderPlaced`], made of the payload's own fields.
#[derive(
    facade::tidings::TopicKey,
    facade::tidings::__private::core::clone::Clone,
    facade::tidings::__private::core::fmt::Debug,
    facade::tidings::__private::core::cmp::PartialEq,
    facade::tidings::__private::core::cmp::Eq,
    facade::tidings::__private::core::hash::Hash
)]
#[topic_key(crate = facade::tidings)]
#[allow(dead_code, unreachable_pub)]
pub(super) struct OrderPlacedKey {
    #[cfg(feature = "a")]
    /// The payload's field `region`.
    pub(super) region: String,
    #[cfg(not(feature = "a"))]
    /// The payload's field `region`.
    pub(super) region: u8,
    /// The payload's field `type`.
    pub(super) r#type: u64,
}
#[cfg_attr(a, cfg(b))]
#[automatically_derived]
impl facade::tidings::SelfKeyed for OrderPlaced {
    fn topic_key(&self) -> <Self as facade::tidings::TopicSpec>::Key {
        OrderPlacedKey {
            #[cfg(feature = "a")]
            region: facade::tidings::__private::core::clone::Clone::clone(&self.region),
            #[cfg(not(feature = "a"))]
            region: facade::tidings::__private::core::clone::Clone::clone(&self.region),
            r#type: facade::tidings::__private::core::clone::Clone::clone(&self.r#type),
        }
    }
    fn write_key(&self, __to: &mut facade::tidings::key::KeyWriter<'_>) {
        #[cfg(feature = "a")]
        <String as facade::tidings::TopicKey>::write(&self.region, __to);
        #[cfg(not(feature = "a"))]
        <u8 as facade::tidings::TopicKey>::write(&self.region, __to);
        <u64 as facade::tidings::TopicKey>::write(&self.r#type, __to);
    }
}
