//! The address of a delivery, at which it is settled and which says what it is.

use super::super::super::wire::SETTLEMENTS;
use crate::capability::Verdict;

/// What a delivery's own address says of it.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Place {
    pub(in super::super) sequence: u64,
    /// How many deliveries there were, with this one.
    pub(in super::super) delivery: u64,
    pub(in super::super) attempt: u32,
    /// When the record was stored, in nanoseconds.
    pub(in super::super) stored: u64,
}

impl Place {
    /// The address that is like another of the durable.
    pub(in super::super) fn address(&self, like: &[u8]) -> Option<String> {
        let (mut tokens, skip) = tokens(like)?;
        let Self { sequence, delivery, attempt, stored } = self;
        let own = [u64::from(*attempt), *sequence, *delivery, *stored].map(|number| number.to_string());
        tokens.get_mut(skip..skip + own.len())?.iter_mut().zip(&own).for_each(|(token, own)| *token = own);
        Some(format!("{SETTLEMENTS}{}", tokens.join(".")))
    }
}

/// An address's parts, and how many come before what says of the delivery what it is.
fn tokens(reply: &[u8]) -> Option<(Vec<&str>, usize)> {
    let reply = std::str::from_utf8(reply).ok()?;
    let tokens: Vec<&str> = reply.strip_prefix(SETTLEMENTS)?.split('.').collect();
    // `stream.consumer.attempt.sequence.delivery.stored.…`, with domain and account before in the second form.
    let skip = if tokens.len() < 9 { 2 } else { 4 };
    Some((tokens, skip))
}

/// Reads such an address, of which there are two forms.
pub(in super::super) fn place(reply: &[u8]) -> Option<Place> {
    let (tokens, skip) = tokens(reply)?;
    let number = |index: usize| tokens.get(skip + index)?.parse::<u64>().ok();
    let attempt = u32::try_from(number(0)?).unwrap_or(u32::MAX);
    Some(Place { sequence: number(1)?, delivery: number(2)?, attempt, stored: number(3)? })
}

/// Says a verdict as the server knows it.
pub(super) fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Ack => "+ACK".to_owned(),
        Verdict::Nak(delay) if delay.is_zero() => "-NAK".to_owned(),
        Verdict::Nak(delay) => format!("-NAK {{\"delay\": {}}}", delay.as_nanos()),
        Verdict::Term(reason) if reason.is_empty() => "+TERM".to_owned(),
        Verdict::Term(reason) => format!("+TERM {reason}"),
        Verdict::InProgress => "+WPI".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_deliverys_address_has_its_place_and_attempt_in_both_forms() {
        let given =
            |sequence, attempt| Some(Place { sequence, delivery: 9, attempt, stored: 1_796_013_055_371_377_564 });
        assert_eq!(place(b"$JS.ACK.s.m_x.2.7.9.1796013055371377564.0"), given(7, 2));
        assert_eq!(place(b"$JS.ACK._.hash.s.m_x.3.8.9.1796013055371377564.0"), given(8, 3));
        assert_eq!(place(b"$JS.ACK.hub.hash.s.m_x.3.8.9.1796013055371377564.0.random"), given(8, 3));
        for wrong in ["", "$JS.ACK.", "$JS.ACK.s.m_x.a.b.c.d.e", "_INBOX.s.m_x.2.7.9.1.0", "$JS.ACK.s.m_x.1"] {
            assert_eq!(place(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn an_address_can_be_made_like_another_in_both_forms() {
        let given = Place { sequence: 70, delivery: 90, attempt: 1, stored: 5 };
        let like = |like: &str| given.address(like.as_bytes()).unwrap();
        assert_eq!(like("$JS.ACK.s.m_x.2.7.9.1796013055371377564.0"), "$JS.ACK.s.m_x.1.70.90.5.0");
        assert_eq!(like("$JS.ACK.hub.hash.s.m_x.3.8.9.17.0.random"), "$JS.ACK.hub.hash.s.m_x.1.70.90.5.0.random");
        assert_eq!(given.address(b"$JS.ACK.s.m_x"), None);
    }

    #[test]
    fn a_verdict_is_said_as_the_server_knows_it() {
        assert_eq!(verdict(&Verdict::Nak(Duration::from_millis(20))), "-NAK {\"delay\": 20000000}");
        assert_eq!(verdict(&Verdict::Nak(Duration::ZERO)), "-NAK");
        assert_eq!(verdict(&Verdict::Term("no good".to_owned())), "+TERM no good");
    }
}
