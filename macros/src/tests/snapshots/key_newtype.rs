#[automatically_derived]
impl<T: Foo> ::bus::TopicKey for Wrapper<T>
where
    T: Baz,
    T::Bar: ::bus::TopicKey,
{
    type Parts = <T::Bar as ::bus::TopicKey>::Parts;
    fn write(&self, __to: &mut ::bus::key::KeyWriter<'_>) {
        <T::Bar as ::bus::TopicKey>::write(&self.0, __to);
    }
    fn read(
        __from: &mut ::bus::key::KeyReader<'_>,
    ) -> ::bus::__private::core::result::Result<Self, ::bus::key::KeyError> {
        ::bus::__private::core::result::Result::Ok(
            Self(<T::Bar as ::bus::TopicKey>::read(__from)?),
        )
    }
}
