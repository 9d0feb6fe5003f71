#[automatically_derived]
impl ::tidings::TopicKey for OrderKey {
    type Parts = (Region, u64);
    fn write(&self, __to: &mut ::tidings::key::KeyWriter<'_>) {
        <Region as ::tidings::TopicKey>::write(&self.region, __to);
        <u64 as ::tidings::TopicKey>::write(&self.r#type, __to);
    }
    fn read(
        __from: &mut ::tidings::key::KeyReader<'_>,
    ) -> ::tidings::__private::core::result::Result<Self, ::tidings::key::KeyError> {
        ::tidings::__private::core::result::Result::Ok(Self {
            region: <Region as ::tidings::TopicKey>::read(__from)?,
            r#type: <u64 as ::tidings::TopicKey>::read(__from)?,
        })
    }
}
