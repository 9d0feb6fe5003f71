#[automatically_derived]
impl ::tidings::TopicKey for All {
    type Parts = ();
    fn write(&self, __to: &mut ::tidings::key::KeyWriter<'_>) {}
    fn read(
        __from: &mut ::tidings::key::KeyReader<'_>,
    ) -> ::tidings::__private::core::result::Result<Self, ::tidings::key::KeyError> {
        ::tidings::__private::core::result::Result::Ok(Self)
    }
}
