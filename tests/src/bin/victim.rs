//! Starts a server, says its process id, and waits to be killed by the test that wants to see the server die with it.

use tidings_tests::harness::{Kind, RedisOptions, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server = Server::start(Kind::Redis8, RedisOptions::default()).await;
    println!("{}", server.pid());
    std::future::pending::<()>().await;
}
