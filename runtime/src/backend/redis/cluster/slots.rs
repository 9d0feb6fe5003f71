//! Which node has which slot.

use redis::Value;

use super::super::super::authority::HostPort;
use super::super::fault::Fault;
use super::super::url::Endpoint;
use crate::error::{ErrorKind, Outcome};

const SLOTS: u16 = 16_384;

/// The slots' owners, by ranges in no order.
#[derive(Debug, Default)]
pub(super) struct Slots {
    ranges: Vec<(u16, u16, Endpoint)>,
}

impl Slots {
    /// Reads the answer to `CLUSTER SLOTS`. A node that doesn't know its own address gave it over this host.
    pub(super) fn read(answer: &Value, host: &str) -> Result<Self, Fault> {
        let ranges = elements(answer)?.iter().map(|range| read_range(range, host)).collect::<Result<_, _>>()?;
        Ok(Self { ranges })
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Endpoint> {
        self.ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot)).map(|(.., owner)| owner)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Endpoint> {
        self.ranges.iter().map(|(.., owner)| owner)
    }
}

fn read_range(range: &Value, host: &str) -> Result<(u16, u16, Endpoint), Fault> {
    let [first, last, primary, ..] = elements(range)? else { return Err(Fault::malformed()) };
    let [name, port, ..] = elements(primary)? else { return Err(Fault::malformed()) };
    let name = match name {
        Value::BulkString(name) => String::from_utf8_lossy(name).into_owned(),
        _ => String::new(),
    };
    // `?` stands for a host name that the node doesn't have.
    let host = if name.is_empty() || name == "?" { host.to_owned() } else { name };
    Ok((number(first)?, number(last)?, Endpoint::Tcp(HostPort { host, port: number(port)? })))
}

fn elements(value: &Value) -> Result<&[Value], Fault> {
    match value {
        Value::Array(elements) => Ok(elements),
        _ => Err(Fault::malformed()),
    }
}

fn number(value: &Value) -> Result<u16, Fault> {
    match value {
        Value::Int(number) => u16::try_from(*number).map_err(|_| Fault::malformed()),
        _ => Err(Fault::malformed()),
    }
}

/// The node that a refusal named, as `host:port`, where the host may be empty.
pub(super) fn redirection(named: &str, host: &str) -> Result<Endpoint, Fault> {
    let (name, port) = named.rsplit_once(':').ok_or_else(Fault::malformed)?;
    let port = port.parse().map_err(|_| Fault::malformed())?;
    let host = if name.is_empty() || name == "?" { host } else { name };
    Ok(Endpoint::Tcp(HostPort { host: host.to_owned(), port }))
}

pub(super) fn uncovered() -> Fault {
    Fault::new(ErrorKind::Refused, Outcome::NotApplied, "no node of the cluster has the channel's slot")
}

/// The slot of a channel: CRC16 (XMODEM) of its hash tag, which is what the first braces hold, or of all of it.
pub(in crate::backend::redis) fn slot(channel: &str) -> u16 {
    let tag = channel.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(channel).as_bytes()) % SLOTS
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) ^ u16::from(*byte)) & 0xff])
}

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0_u16; 256];
    let mut byte = 0_u16;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot("foo"), 12_182);
        assert_eq!(slot("{user1000}.following"), slot("user1000"));
        assert_ne!(slot("foo{}bar"), slot(""));
        assert_eq!(slot("foo{{bar}}zap"), slot("{bar"));
    }
}
