#[automatically_derived]
impl ::tidings::TopicKey for Region {
    type Parts = (Self,);
    fn write(&self, __to: &mut ::tidings::key::KeyWriter<'_>) {
        ::tidings::key::KeyWriter::segment(
            __to,
            match self {
                Self::Europe => "eu-1",
                Self::America => "America",
                Self::r#Self_ => "Self_",
            },
        );
    }
    fn read(
        __from: &mut ::tidings::key::KeyReader<'_>,
    ) -> ::tidings::__private::core::result::Result<Self, ::tidings::key::KeyError> {
        match &*::tidings::key::KeyReader::segment(__from)? {
            "eu-1" => ::tidings::__private::core::result::Result::Ok(Self::Europe),
            "America" => ::tidings::__private::core::result::Result::Ok(Self::America),
            "Self_" => ::tidings::__private::core::result::Result::Ok(Self::r#Self_),
            _ => {
                ::tidings::__private::core::result::Result::Err(
                    ::tidings::key::KeyError::unknown_variant("Region"),
                )
            }
        }
    }
}
