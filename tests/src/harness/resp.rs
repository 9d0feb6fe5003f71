//! Just enough of RESP2 to command a server and to read what a client sent.

use std::io;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `+OK`
    Simple(String),
    /// `-ERR ...`
    Error(String),
    /// `:1`
    Integer(i64),
    /// `$2 OK`, or null
    Bulk(Option<Vec<u8>>),
    /// `*1 ...`, or null
    Array(Option<Vec<Value>>),
}

impl Value {
    /// The reply as text: empty for null, one line for each element of an array.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Simple(text) | Self::Error(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned(),
            Self::Array(_) => self.elements().iter().map(Self::text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// The reply as a number; panics when it is none.
    #[must_use]
    pub fn integer(&self) -> i64 {
        self.text().parse().unwrap_or_else(|_| panic!("not a number: {self:?}"))
    }

    /// The elements of an array; empty for null and for anything else.
    #[must_use]
    pub fn elements(&self) -> &[Self] {
        match self {
            Self::Array(Some(elements)) => elements,
            _ => &[],
        }
    }

    /// Whether the server refused.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// Takes one value off the front of `input`. `None`, with `input` untouched, when it isn't all there.
pub(super) fn parse(input: &mut &[u8]) -> io::Result<Option<Value>> {
    let mut rest = *input;
    let value = parse_value(&mut rest)?;
    if value.is_some() {
        *input = rest;
    }
    Ok(value)
}

fn parse_value(input: &mut &[u8]) -> io::Result<Option<Value>> {
    let Some(line) = take_line(input) else { return Ok(None) };
    let (kind, line) = line.split_first().ok_or_else(|| malformed("an empty line"))?;
    let text = || String::from_utf8_lossy(line).into_owned();
    let number = || text().parse::<i64>().map_err(|_| malformed(&text()));
    Ok(match kind {
        b'+' => Some(Value::Simple(text())),
        b'-' => Some(Value::Error(text())),
        b':' => Some(Value::Integer(number()?)),
        b'$' => match usize::try_from(number()?) {
            Err(_) => Some(Value::Bulk(None)),
            Ok(length) => take_bulk(input, length).map(|bytes| Value::Bulk(Some(bytes))),
        },
        b'*' => match usize::try_from(number()?) {
            Err(_) => Some(Value::Array(None)),
            Ok(length) => {
                let mut elements = Vec::new();
                for _ in 0..length {
                    let Some(element) = parse_value(input)? else { return Ok(None) };
                    elements.push(element);
                }
                Some(Value::Array(Some(elements)))
            }
        },
        _ => return Err(malformed(&format!("{}{}", char::from(*kind), text()))),
    })
}

fn take_line<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = input.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &input[..end];
    *input = &input[end + 2..];
    Some(line)
}

fn take_bulk(input: &mut &[u8], length: usize) -> Option<Vec<u8>> {
    let (bytes, rest) = input.split_at_checked(length)?;
    *input = rest.strip_prefix(b"\r\n")?;
    Some(bytes.to_vec())
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not RESP2: `{what}`"))
}

fn encode(command: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for word in command {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// Sends `commands` over a connection of their own and returns the reply to the last.
pub(super) async fn call(socket: &Path, commands: &[&[&str]]) -> io::Result<Value> {
    let mut stream = UnixStream::connect(socket).await?;
    let mut received = Vec::new();
    let mut last = Value::Bulk(None);
    for command in commands {
        stream.write_all(&encode(command)).await?;
        last = loop {
            let mut unread = received.as_slice();
            if let Some(value) = parse(&mut unread)? {
                received.drain(..received.len() - unread.len());
                break value;
            }
            if stream.read_buf(&mut received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
    }
    Ok(last)
}
