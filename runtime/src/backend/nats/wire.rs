//! The protocol: what the server sends, taken apart, and what goes to it.

use std::io::Write as _;

use async_nats::ServerInfo;
use bytes::{Buf, Bytes, BytesMut};

use super::fault::Fault;

/// What the server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Info(Box<ServerInfo>),
    Ping,
    Pong,
    Ok,
    /// What follows `-ERR`.
    Complaint(String),
    Message(Message),
}

/// A message as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) sid: u64,
    pub(super) subject: Bytes,
    pub(super) reply: Bytes,
    /// The status line and the headers, as they came; empty where there are none.
    pub(super) head: Bytes,
    pub(super) payload: Bytes,
}

/// A line is longer only in an `INFO` of a large cluster.
const MOST_LINE_BYTES: usize = 256 << 10;
/// As large as a server's `max_payload` can be.
const MOST_MESSAGE_BYTES: usize = 64 << 20;
const HEAD: &[u8] = b"NATS/1.0";
/// What the address begins with at which a record that JetStream hands out is settled.
pub(super) const SETTLEMENTS: &str = "$JS.ACK.";

/// Takes what the server sends apart, wherever it is cut.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// So many bytes were looked through for the end of a line.
    seen: usize,
    /// A message whose bytes aren't all there: how many of them are its head, and all.
    begun: Option<(Message, usize, usize)>,
}

impl Reader {
    /// Takes the next operation, if it is there as a whole.
    pub(super) fn take(&mut self, unread: &mut BytesMut) -> Result<Option<Op>, Fault> {
        if self.begun.is_none() {
            let Some(line) = self.line(unread)? else { return Ok(None) };
            if let Some(op) = self.begin(&line)? {
                return Ok(Some(op));
            }
        }
        let Some((_, _, all)) = &self.begun else { return Ok(None) };
        let all = *all;
        if unread.len() < all + 2 {
            unread.reserve(all + 2 - unread.len());
            return Ok(None);
        }
        let Some((mut message, head, _)) = self.begun.take() else { return Ok(None) };
        let mut body = unread.split_to(all).freeze();
        if !unread.starts_with(b"\r\n") {
            return Err(Fault::malformed());
        }
        unread.advance(2);
        message.head = body.split_to(head);
        message.payload = body;
        Ok(Some(Op::Message(message)))
    }

    fn line(&mut self, unread: &mut BytesMut) -> Result<Option<Bytes>, Fault> {
        let from = self.seen.saturating_sub(1);
        let Some(end) = unread[from.min(unread.len())..].windows(2).position(|pair| pair == b"\r\n") else {
            self.seen = unread.len();
            return if self.seen > MOST_LINE_BYTES { Err(Fault::malformed()) } else { Ok(None) };
        };
        self.seen = 0;
        let line = unread.split_to(from + end).freeze();
        unread.advance(2);
        Ok(Some(line))
    }

    /// Takes a line: an operation, or the beginning of a message.
    fn begin(&mut self, line: &Bytes) -> Result<Option<Op>, Fault> {
        let (word, rest) = match line.iter().position(|byte| matches!(byte, b' ' | b'\t')) {
            Some(end) => (&line[..end], line.slice(end + 1..)),
            None => (&line[..], Bytes::new()),
        };
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("MSG") || is("HMSG") {
            self.begun = Some(message(&rest, is("HMSG")).ok_or_else(Fault::malformed)?);
            return match &self.begun {
                Some((_, _, all)) if *all > MOST_MESSAGE_BYTES => Err(Fault::oversized()),
                _ => Ok(None),
            };
        }
        let op = if is("PING") {
            Op::Ping
        } else if is("PONG") {
            Op::Pong
        } else if is("+OK") {
            Op::Ok
        } else if is("-ERR") {
            Op::Complaint(String::from_utf8_lossy(&rest).into_owned())
        } else if is("INFO") {
            Op::Info(Box::new(serde_json::from_slice(&rest).map_err(|_| Fault::malformed())?))
        } else {
            return Err(Fault::malformed());
        };
        Ok(Some(op))
    }
}

/// Reads `subject sid [reply] [head] all`.
fn message(line: &Bytes, with_head: bool) -> Option<(Message, usize, usize)> {
    let words: Vec<&[u8]> = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty()).collect();
    let lengths = if with_head { 2 } else { 1 };
    let (subject, sid, reply) = match words.get(..words.len().checked_sub(lengths)?)? {
        [subject, sid] => (line.slice_ref(subject), sid, Bytes::new()),
        [subject, sid, reply] => (line.slice_ref(subject), sid, line.slice_ref(reply)),
        _ => return None,
    };
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<usize>().ok();
    let all = number(words.last()?)?;
    let head = if with_head { number(words[words.len() - 2])? } else { 0 };
    let sid = u64::try_from(number(sid)?).ok()?;
    (head <= all).then(|| (Message { sid, subject, reply, ..Message::default() }, head, all))
}

impl Message {
    /// The status that the server answers with in place of a message, such as 503 where nobody listens, and its words.
    ///
    /// A record that is handed out is none, whatever its publisher wrote into its first line: it has an address of its own.
    pub(super) fn status(&self) -> Option<(u16, &str)> {
        if self.reply.starts_with(SETTLEMENTS.as_bytes()) {
            return None;
        }
        let line = self.head.split(|byte| *byte == b'\r').next()?.strip_prefix(HEAD)?;
        let (code, words) = std::str::from_utf8(line).ok()?.trim().split_at_checked(3)?;
        Some((code.parse().ok()?, words.trim()))
    }

    /// The headers, in the order in which they came. Names are as they were written.
    pub(super) fn headers(&self) -> impl Iterator<Item = (&str, Bytes)> {
        let lines = self.head.split(|byte| *byte == b'\n').skip(1);
        lines.filter_map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let colon = line.iter().position(|byte| *byte == b':')?;
            let name = std::str::from_utf8(&line[..colon]).ok()?.trim();
            Some((name, self.head.slice_ref(line[colon + 1..].trim_ascii())))
        })
    }
}

/// Begins a block of headers. Each is then added by [`header`], and the block ends with an empty line.
pub(super) fn begin_head() -> Vec<u8> {
    let mut head = HEAD.to_vec();
    head.extend_from_slice(b"\r\n");
    head
}

/// Adds a header, whose value holds no end of a line.
pub(super) fn header(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

pub(super) fn end_head(mut head: Vec<u8>) -> Vec<u8> {
    head.extend_from_slice(b"\r\n");
    head
}

/// Packs a message. The head is empty where there are no headers, the reply where none is wanted.
pub(super) fn publish(out: &mut Vec<u8>, subject: &str, reply: &str, head: &[u8], payload: &[u8]) {
    let word = if head.is_empty() { "PUB" } else { "HPUB" };
    out.extend_from_slice(word.as_bytes());
    for part in [subject, reply].iter().filter(|part| !part.is_empty()) {
        out.push(b' ');
        out.extend_from_slice(part.as_bytes());
    }
    // Writing to memory doesn't fail.
    let _ = if head.is_empty() {
        write!(out, " {}\r\n", payload.len())
    } else {
        write!(out, " {} {}\r\n", head.len(), head.len() + payload.len())
    };
    out.extend_from_slice(head);
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn subscribe(out: &mut Vec<u8>, subject: &str, sid: u64) {
    let _ = write!(out, "SUB {subject} {sid}\r\n");
}

pub(super) fn unsubscribe(out: &mut Vec<u8>, sid: u64) {
    let _ = write!(out, "UNSUB {sid}\r\n");
}

pub(super) const PING: &[u8] = b"PING\r\n";
pub(super) const PONG: &[u8] = b"PONG\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads it in pieces of so many bytes.
    fn read(bytes: &[u8], step: usize) -> Result<Vec<Op>, Fault> {
        let (mut reader, mut unread, mut ops) = (Reader::default(), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(step) {
            unread.extend_from_slice(piece);
            while let Some(op) = reader.take(&mut unread)? {
                ops.push(op);
            }
        }
        Ok(ops)
    }

    #[test]
    fn what_a_server_sends_is_the_same_wherever_it_is_cut() {
        let sent = b"INFO {\"version\":\"2.10.27\",\"max_payload\":1048576}\r\n+OK\r\nPING\r\npong\r\n\
                     MSG a.b 7 2\r\n\r\n\r\nMSG a 1 r.x 0\r\n\r\n\
                     HMSG a.b 9 inbox 26 28\r\nNATS/1.0\r\nA: b\r\nC:  d \r\n\r\nhi\r\n\
                     HMSG a 9 16 16\r\nNATS/1.0 503\r\n\r\n\r\n\
                     HMSG a 9 $JS.ACK.s.c.1.1.1.1.0 16 16\r\nNATS/1.0 503\r\n\r\n\r\n-ERR 'Stale Connection'\r\n";
        let whole = read(sent, sent.len()).unwrap();
        for step in 1..40 {
            assert_eq!(read(sent, step).unwrap(), whole);
        }
        assert_eq!(whole.len(), 10);
        let messages: Vec<&Message> =
            whole.iter().filter_map(|op| if let Op::Message(message) = op { Some(message) } else { None }).collect();
        assert_eq!((messages[0].sid, &messages[0].payload[..], messages[0].status()), (7, &b"\r\n"[..], None));
        assert_eq!((&messages[1].reply[..], messages[1].payload.len()), (&b"r.x"[..], 0));
        let headers: Vec<_> = messages[2].headers().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
        assert_eq!(headers, [("A".to_owned(), b"b".to_vec()), ("C".to_owned(), b"d".to_vec())]);
        assert_eq!(&messages[2].payload[..], b"hi");
        assert_eq!(messages[3].status(), Some((503, "")));
        assert_eq!(messages[4].status(), None);
        assert_eq!(whole[9], Op::Complaint("'Stale Connection'".to_owned()));
    }

    #[test]
    fn what_is_no_nats_is_refused() {
        for sent in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"INFO x\r\n",
            b"MSG a 1\r\n",
            b"MSG a x 1\r\n",
            b"MSG a 1 -1\r\n",
            b"MSG a 1 b c 1\r\n",
            b"MSG a 1 2\r\nabcd\r\n",
            b"HMSG a 1 3 2\r\nab\r\n",
            b"HMSG a 1 2\r\nab\r\n",
            b"MSG a 1 67108865\r\n",
            b"MSG a 1 99999999999999999999\r\n",
            b"\r\n",
            &vec![b'x'; MOST_LINE_BYTES + 1],
        ] {
            assert!(read(sent, 7).is_err(), "{:?}", String::from_utf8_lossy(&sent[..sent.len().min(40)]));
        }
    }

    #[test]
    fn messages_go_out_as_the_protocol_has_it() {
        let mut out = Vec::new();
        publish(&mut out, "a.b", "", b"", b"hi");
        publish(&mut out, "a.b", "r", b"", b"");
        let mut head = begin_head();
        header(&mut head, "A", b"b");
        publish(&mut out, "a", "", &end_head(head), b"x");
        subscribe(&mut out, "a.>", 3);
        unsubscribe(&mut out, 3);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "PUB a.b 2\r\nhi\r\nPUB a.b r 0\r\n\r\nHPUB a 18 19\r\nNATS/1.0\r\nA: b\r\n\r\nx\r\nSUB a.> 3\r\nUNSUB 3\r\n"
        );
    }
}
