//! Key segments of other crates' types, each behind its feature.

use super::key::{KeyError, KeyReader, KeyWriter, TopicKey};

/// Lower-case hyphenated text.
#[cfg(feature = "uuid")]
impl TopicKey for uuid::Uuid {
    type Parts = (Self,);

    fn write(&self, to: &mut KeyWriter<'_>) {
        to.segment(self.hyphenated().encode_lower(&mut Self::encode_buffer()));
    }

    fn read(from: &mut KeyReader<'_>) -> Result<Self, KeyError> {
        Self::parse_str(&from.segment()?).map_err(|_| KeyError::invalid("is no uuid"))
    }
}

/// Nanoseconds since the Unix epoch, which every instant has one text of. What is read back is in UTC.
#[cfg(feature = "time")]
impl TopicKey for time::UtcDateTime {
    type Parts = (Self,);

    fn write(&self, to: &mut KeyWriter<'_>) {
        self.unix_timestamp_nanos().write(to);
    }

    fn read(from: &mut KeyReader<'_>) -> Result<Self, KeyError> {
        Self::from_unix_timestamp_nanos(i128::read(from)?).map_err(|_| KeyError::invalid("is no time"))
    }
}

/// The Julian day, a plain integer.
#[cfg(feature = "time")]
impl TopicKey for time::Date {
    type Parts = (Self,);

    fn write(&self, to: &mut KeyWriter<'_>) {
        self.to_julian_day().write(to);
    }

    fn read(from: &mut KeyReader<'_>) -> Result<Self, KeyError> {
        Self::from_julian_day(i32::read(from)?).map_err(|_| KeyError::invalid("is no date"))
    }
}

#[cfg(test)]
mod tests {
    use crate::key::{decode, encode};

    #[test]
    #[cfg(feature = "uuid")]
    fn uuids_have_one_text() {
        let mut text = String::new();
        encode(&uuid::Uuid::max(), &mut text);
        assert_eq!(text, ".ffffffff-ffff-ffff-ffff-ffffffffffff");
        assert_eq!(decode::<uuid::Uuid>(&text), Ok(uuid::Uuid::max()));
        assert!(decode::<uuid::Uuid>(&text.to_uppercase()).is_err());
        assert!(decode::<uuid::Uuid>(&text.replace('-', "")).is_err());
    }

    #[test]
    #[cfg(feature = "time")]
    fn times_have_one_text() {
        let before = time::UtcDateTime::UNIX_EPOCH - time::Duration::nanoseconds(1);
        let mut text = String::new();
        encode(&before, &mut text);
        encode(&time::Date::MIN, &mut text);
        assert_eq!(text, ".-1.-1930999");
        assert_eq!(decode::<time::UtcDateTime>(".-1"), Ok(before));
        assert_eq!(decode::<time::Date>(".-1930999"), Ok(time::Date::MIN));
        assert!(decode::<time::Date>(".99999999").is_err());
    }
}
