//! As much of Kafka's protocol as the harness needs to look at a server past the client that is under test. Versions are
//! the last ones before lengths became variable.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const METADATA: (i16, i16) = (3, 1);
const FIND_COORDINATOR: (i16, i16) = (10, 1);
const CREATE_TOPICS: (i16, i16) = (19, 2);
const DESCRIBE_ACLS: (i16, i16) = (29, 1);
const CREATE_ACLS: (i16, i16) = (30, 1);

/// What a broker says about its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    /// The ids of the brokers that are in service.
    pub(super) brokers: Vec<i32>,
    /// The partitions of the topic that was asked for, by number.
    pub(super) partitions: BTreeMap<i32, Partition>,
}

/// Where a partition is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    /// The id of its leader, or -1 when it has none.
    pub(super) leader: i32,
    pub(super) replicas: Vec<i32>,
    pub(super) in_sync: Vec<i32>,
}

/// Asks the broker on a plain port of 127.0.0.1 about its cluster and a topic.
pub(super) async fn metadata(port: u16, topic: Option<&str>) -> io::Result<Metadata> {
    let mut body = Vec::new();
    count(&mut body, usize::from(topic.is_some()));
    if let Some(topic) = topic {
        string(&mut body, topic);
    }
    let reply = call(port, METADATA, &body).await?;
    let mut reply = Reader(&reply);
    let mut brokers = Vec::new();
    for _ in 0..reply.int()? {
        brokers.push(reply.int()?);
        reply.text()?;
        reply.int()?;
        reply.text()?;
    }
    reply.int()?;
    let mut partitions = BTreeMap::new();
    for _ in 0..reply.int()? {
        refused("metadata", reply.short()?)?;
        reply.text()?;
        reply.take(1)?;
        for _ in 0..reply.int()? {
            // A partition without a leader has an error, and is told all the same.
            reply.short()?;
            let number = reply.int()?;
            let partition = Partition { leader: reply.int()?, replicas: reply.ints()?, in_sync: reply.ints()? };
            partitions.insert(number, partition);
        }
    }
    Ok(Metadata { brokers, partitions })
}

/// Creates a topic with these settings.
pub(super) async fn create_topic(
    port: u16,
    name: &str,
    partitions: i32,
    replicas: i16,
    settings: &[(&str, &str)],
) -> io::Result<()> {
    let mut body = Vec::new();
    count(&mut body, 1);
    string(&mut body, name);
    body.extend(partitions.to_be_bytes());
    body.extend(replicas.to_be_bytes());
    count(&mut body, 0);
    count(&mut body, settings.len());
    for (name, value) in settings {
        string(&mut body, name);
        string(&mut body, value);
    }
    body.extend(10_000_i32.to_be_bytes());
    body.push(0);
    let reply = call(port, CREATE_TOPICS, &body).await?;
    let mut reply = Reader(&reply);
    reply.int()?;
    reply.int()?;
    reply.text()?;
    let (code, words) = (reply.short()?, reply.text()?);
    refused(&words, code)
}

/// Asks for the broker that coordinates a group. The first question makes the broker create the topic for offsets.
pub(super) async fn find_coordinator(port: u16, group: &str) -> io::Result<()> {
    let mut body = Vec::new();
    string(&mut body, group);
    body.push(0);
    let reply = call(port, FIND_COORDINATOR, &body).await?;
    let mut reply = Reader(&reply);
    reply.int()?;
    let (code, words) = (reply.short()?, reply.text()?);
    refused(&format!("coordinator: {words}"), code)
}

/// What someone may do, in Kafka's numbers.
pub(super) struct Grant<'a> {
    pub(super) user: &'a str,
    pub(super) resource: u8,
    pub(super) name: &'a str,
    /// Whether it is for everything whose name begins so.
    pub(super) prefix: bool,
    pub(super) right: u8,
}

impl Grant<'_> {
    fn write(&self, body: &mut Vec<u8>) {
        const LITERAL: u8 = 3;
        const PREFIXED: u8 = 4;
        const ALLOW: u8 = 3;
        body.push(self.resource);
        string(body, self.name);
        body.push(if self.prefix { PREFIXED } else { LITERAL });
        string(body, &format!("User:{}", self.user));
        string(body, "*");
        body.extend([self.right, ALLOW]);
    }
}

/// Lets someone do something.
pub(super) async fn grant(port: u16, grant: &Grant<'_>) -> io::Result<()> {
    let mut body = Vec::new();
    count(&mut body, 1);
    grant.write(&mut body);
    let reply = call(port, CREATE_ACLS, &body).await?;
    let mut reply = Reader(&reply);
    reply.int()?;
    reply.int()?;
    let (code, words) = (reply.short()?, reply.text()?);
    refused(&format!("grant: {words}"), code)
}

/// Asks whether the broker goes by a grant already.
pub(super) async fn is_granted(port: u16, grant: &Grant<'_>) -> io::Result<bool> {
    let mut body = Vec::new();
    grant.write(&mut body);
    let reply = call(port, DESCRIBE_ACLS, &body).await?;
    let mut reply = Reader(&reply);
    reply.int()?;
    let (code, words) = (reply.short()?, reply.text()?);
    refused(&format!("grants: {words}"), code)?;
    Ok(reply.int()? > 0)
}

/// Sends one request on a connection of its own, and returns the body of its response.
async fn call(port: u16, (key, version): (i16, i16), body: &[u8]) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    request.extend(key.to_be_bytes());
    request.extend(version.to_be_bytes());
    request.extend(0_i32.to_be_bytes());
    string(&mut request, "harness");
    request.extend_from_slice(body);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_u32(u32::try_from(request.len()).expect("a request is short")).await?;
    stream.write_all(&request).await?;
    let length = stream.read_u32().await?;
    let mut response = vec![0; usize::try_from(length).expect("a length is a usize")];
    stream.read_exact(&mut response).await?;
    // The correlation id: there is only one request.
    Ok(response.split_off(4))
}

fn refused(what: &str, code: i16) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::other(format!("{what}: Kafka's error {code}"))) }
}

fn count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend(i32::try_from(count).expect("a list is short").to_be_bytes());
}

fn string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend(i16::try_from(text.len()).expect("a name is short").to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

/// Reads a response from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(head)
    }

    fn short(&mut self) -> io::Result<i16> {
        Ok(i16::from_be_bytes(self.take(2)?.try_into().expect("two bytes were taken")))
    }

    fn int(&mut self) -> io::Result<i32> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into().expect("four bytes were taken")))
    }

    fn ints(&mut self) -> io::Result<Vec<i32>> {
        (0..self.int()?).map(|_| self.int()).collect()
    }

    /// A string; one that is absent is empty.
    fn text(&mut self) -> io::Result<String> {
        let length = usize::try_from(self.short()?).unwrap_or(0);
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }
}
