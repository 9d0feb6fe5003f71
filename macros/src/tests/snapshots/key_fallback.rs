#[automatically_derived]
impl<'a> ::tidings::TopicKey for Borrowed<'a> {
    type Parts = ();
    fn write(&self, __to: &mut ::tidings::key::KeyWriter<'_>) {}
    fn read(
        __from: &mut ::tidings::key::KeyReader<'_>,
    ) -> ::tidings::__private::core::result::Result<Self, ::tidings::key::KeyError> {
        ::tidings::__private::core::unreachable!()
    }
}
::core::compile_error! {
    "a key is owned, but this field borrows; use an owned type such as `String`"
}
