#[automatically_derived]
impl ::tidings::TopicKey for Pair {
    type Parts = (u8, String);
    fn write(&self, __to: &mut ::tidings::key::KeyWriter<'_>) {
        <u8 as ::tidings::TopicKey>::write(&self.0, __to);
        <String as ::tidings::TopicKey>::write(&self.1, __to);
    }
    fn read(
        __from: &mut ::tidings::key::KeyReader<'_>,
    ) -> ::tidings::__private::core::result::Result<Self, ::tidings::key::KeyError> {
        ::tidings::__private::core::result::Result::Ok(
            Self(
                <u8 as ::tidings::TopicKey>::read(__from)?,
                <String as ::tidings::TopicKey>::read(__from)?,
            ),
        )
    }
}
