//! Servers that misbehave, callers that give up midway, and many of them at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;

mod cluster;
mod publish;
mod subscribe;

const GREETING: &[u8] = b"%1\r\n+proto\r\n:3\r\n";

/// What a [`Fake`] sends when it is given a command; nothing ends the connection once what it sent before has gone.
type Script = Arc<dyn Fn(&[String]) -> Option<Vec<u8>> + Send + Sync>;

/// A server that says what a test wants.
struct Fake {
    port: u16,
    accepted: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Fake {
    async fn start(script: impl Fn(&[String]) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::<AtomicUsize>::default();
        let script: Script = Arc::new(script);
        let task = tokio::spawn({
            let accepted = accepted.clone();
            async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    accepted.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(serve(stream, script.clone()));
                }
            }
        });
        Self { port, accepted, task }
    }

    /// Greets, and then answers every command with the same.
    async fn greeting(greeting: &'static [u8], answer: Option<&'static [u8]>) -> Self {
        Self::start(move |words| if words[0] == "HELLO" { Some(greeting.to_vec()) } else { answer.map(Vec::from) })
            .await
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, script: Script) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let words = command(&mut stream).await?;
        let Some(answer) = script(&words) else { return Ok(()) };
        stream.write_all(&answer).await?;
    }
}

async fn command(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<String>> {
    let count = number(stream).await?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; number(stream).await? + 2];
        stream.read_exact(&mut word).await?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8(word).unwrap());
    }
    Ok(words)
}

async fn number(stream: &mut BufReader<TcpStream>) -> std::io::Result<usize> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line[1..].trim_end().parse().unwrap())
}

fn push(kind: &str, channel: &str) -> String {
    format!(">3\r\n${}\r\n{kind}\r\n${}\r\n{channel}\r\n:1\r\n", kind.len(), channel.len())
}

/// Polls so many times at most, and drops.
async fn poll_and_drop<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = std::pin::pin!(future);
    for _ in 0..times {
        let ready = std::future::poll_fn(|cx| {
            std::task::Poll::Ready(match future.as_mut().poll(cx) {
                std::task::Poll::Ready(ready) => Some(ready),
                std::task::Poll::Pending => None,
            })
        })
        .await;
        if ready.is_some() {
            return ready;
        }
        tokio::task::yield_now().await;
    }
    None
}
