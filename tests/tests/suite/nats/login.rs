//! URLs, users, tokens, keys and certificates.

use std::error::Error as _;
use std::fs;

use tidings_tests::harness::NatsTls;

use super::*;

/// Of NATS's documentation: a user's seed, and its public name.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const NAME: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
/// Made for these tests: claims of an operator, of an account that it signed, and of a user whom the account signed; the
/// account's name, the user's seed, and another user's.
const OPERATOR: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJPUEVSQVRPUiIsImlhdCI6MTcwMDAwMDAwMCwiaXNzI\
    joiT0RLVzdJN0xJT01XUVdMS0pRS1pISFFDSTQ1WDNEV05VR1Q1T0xENFlQRE5JSjZOWTNKV0Q1QzQiLCJuYW1lIjoib3BlcmF0b\
    3IiLCJzdWIiOiJPREtXN0k3TElPTVdRV0xLSlFLWkhIUUNJNDVYM0RXTlVHVDVPTEQ0WVBETklKNk5ZM0pXRDVDNCIsIm5hdHMiO\
    nsidHlwZSI6Im9wZXJhdG9yIiwidmVyc2lvbiI6Mn19.Mhw9HkrPhUJjBbx8xMgKEa_R8cItglPJPA2Gy06glKHqxhjN4-2bgNLi\
    i9cpi1hIUMfNeeGfHd8HpbgzEeHBCw";
const ACCOUNT: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJBQ0NPVU5UIiwiaWF0IjoxNzAwMDAwMDAwLCJpc3MiO\
    iJPREtXN0k3TElPTVdRV0xLSlFLWkhIUUNJNDVYM0RXTlVHVDVPTEQ0WVBETklKNk5ZM0pXRDVDNCIsIm5hbWUiOiJhY2NvdW50I\
    iwic3ViIjoiQUNPWkNHWkhaUjRNVU1DRFM0VlVTVlRMTkY0QUdOTUxQUlEyNU9XT1hBSFNJVDZLTFBYRFcyMkciLCJuYXRzIjp7I\
    mxpbWl0cyI6eyJzdWJzIjotMSwiZGF0YSI6LTEsInBheWxvYWQiOi0xLCJpbXBvcnRzIjotMSwiZXhwb3J0cyI6LTEsIndpbGRjY\
    XJkcyI6dHJ1ZSwiY29ubiI6LTEsImxlYWYiOi0xfSwiZGVmYXVsdF9wZXJtaXNzaW9ucyI6eyJwdWIiOnt9LCJzdWIiOnt9fSwid\
    HlwZSI6ImFjY291bnQiLCJ2ZXJzaW9uIjoyfX0.DXgJGFFx4RiJdmQ4O0K5KfhE1ZPTdigDjrfJ1sTHmAeW3I5aEaipbojGszZIJ\
    zZGaM7Ek_WqJydbaLAZXeveDQ";
const ACCOUNT_NAME: &str = "ACOZCGZHZR4MUMCDS4VUSVTLNF4AGNMLPRQ25OWOXAHSIT6KLPXDW22G";
const USER: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJVU0VSIiwiaWF0IjoxNzAwMDAwMDAwLCJpc3MiOiJBQ\
    09aQ0daSFpSNE1VTUNEUzRWVVNWVExORjRBR05NTFBSUTI1T1dPWEFIU0lUNktMUFhEVzIyRyIsIm5hbWUiOiJ1c2VyIiwic3ViI\
    joiVUQ0SklVTkhCUkxLS05ZMkkyUktFN1JGVTY2M1pTSkNEUFczSEdJSDNVTzZLR0RDU0RIWFNVVU4iLCJuYXRzIjp7InB1YiI6e\
    30sInN1YiI6e30sInN1YnMiOi0xLCJkYXRhIjotMSwicGF5bG9hZCI6LTEsInR5cGUiOiJ1c2VyIiwidmVyc2lvbiI6Mn19.v_TT\
    FLw7gZSEGh6AGV97VsbShVgfmi3EWzTVE02mPcLBSShPNoj2Y7oQjexzJAKrEAHN97Lqw-I8b9Swcj3qBw";
const USER_SEED: &str = "SUALXKNPSO7SZ4AT54S23PJ5YG3DA3EPJ73AYVISMRYQJYOPDIZKNZFDJI";
const OTHER_SEED: &str = "SUAJJZDSXRHF7ZK5BPE4PQGABBJ4STXV722G647AZITMAN7GLHPDVVTV3E";

pub(super) fn whole_text(error: &tidings::Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text} {error}");
        source = error.source();
    }
    text
}

/// It publishes and subscribes.
async fn gets_in(nats: Nats) {
    let topic = Counted::topic(&broker_of(nats, Limits::default())).unwrap();
    let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
    publish(&topic, "a", 1).await;
    assert_eq!(receive(&mut subscription).await, 1);
}

/// It can do neither, and is told why without a secret.
async fn stays_out(nats: Nats) {
    let shown = format!("{nats:?}");
    let broker = broker_of(nats, Limits::default());
    let topic = Counted::topic(&broker).unwrap();
    let published = topic.publish(&"a".to_owned(), &counted(1)).await.unwrap_err();
    let subscribed = topic.subscribe(&"a".to_owned()).await.unwrap_err();
    let checked = broker.check(DEADLINE).await.unwrap_err();
    for failed in [published, subscribed, checked] {
        assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Forbidden, Outcome::NotApplied), "{failed:?}");
        let text = whole_text(&failed);
        assert!(!text.contains("hunter2") && !text.contains("SUA"), "{text}");
    }
    assert!(!shown.contains("hunter2") && !shown.contains("SUA"), "{shown}");
}

fn build(nats: Nats) -> String {
    Broker::new(nats, Config::new(Namespace::new("shop", "test").unwrap())).unwrap_err().to_string()
}

fn nats(url: impl AsRef<str>) -> Nats {
    Nats::new(url).unwrap()
}

fn creds(jwt: &str, seed: &str) -> String {
    format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

#[test]
fn what_cannot_be_honoured_is_refused_when_the_broker_is_built() {
    for (bad, word) in [
        (nats("nats://user:hunter2@h").token("hunter2"), "several ways"),
        (nats("nats://h").nkey(SEED).credentials(creds("a.b.c", SEED)), "several ways"),
        (nats("nats://h").nkey("hunter2"), "begins with `SU`"),
        (nats("nats://h").credentials(SEED), "`NATS USER JWT`"),
        (nats("nats://h").credentials(creds("a.b.c", "hunter2")), "begins with `SU`"),
        (nats("nats://h").token(""), "token is empty"),
        (nats("nats://h").token("hunter2\n"), "control character"),
        (nats("nats://h").authority("x"), "tls://"),
        (nats("nats://h").tls_first(), "tls://"),
        (nats("tls://h").authority("hunter2"), "PEM"),
        (nats("nats://h").inbox_prefix("_INBOX.>"), "inbox_prefix"),
        (nats("nats://h").inbox_prefix(""), "inbox_prefix"),
    ] {
        let text = build(bad);
        assert!(text.contains(word) && !text.contains("hunter2") && !text.contains(SEED), "{text}");
    }
    for url in ["nats://u:hunter2@h", "tls://hunter2@[::1]:7000,two"] {
        let text = format!("{:?}", nats(url));
        assert!(!text.contains("hunter2"), "{text}");
    }
    let refused = Nats::new("nats://u:hunter2@h/x").unwrap_err();
    assert!(refused.kind() == ErrorKind::Invalid && !whole_text(&refused).contains("hunter2"), "{refused:?}");
}

#[tokio::test]
async fn a_user_needs_the_password() {
    let options = NatsOptions::default().config("authorization { user: alice, password: \"hunter2/@:\" }");
    let server = harness::Nats::start(NatsKind::Nats210, options).await;
    gets_in(nats(server.url_as("alice:hunter2%2F%40%3A"))).await;
    stays_out(nats(server.url_as("alice:hunter2"))).await;
    stays_out(nats(server.url_as("bob:hunter2%2F%40%3A"))).await;
    stays_out(nats(server.url())).await;
    stays_out(nats(server.url()).token("hunter2")).await;
    // The rights can't be looked at, and the check says so.
    let checked = broker(server.url_as("alice:hunter2%2F%40%3A")).check(DEADLINE).await.unwrap();
    assert!(checked.unchecked.iter().any(|what| what.contains("rights")), "{checked:?}");
}

#[tokio::test]
async fn a_token_comes_by_the_url_or_by_itself() {
    let options = NatsOptions::default().config("authorization { token: hunter2 }");
    let server = harness::Nats::start(NatsKind::Nats215, options).await;
    gets_in(nats(server.url_as("hunter2"))).await;
    gets_in(nats(server.url()).token("hunter2")).await;
    stays_out(nats(server.url()).token("hunter22")).await;
    stays_out(nats(server.url())).await;
}

#[tokio::test]
async fn a_key_proves_itself_by_its_seed() {
    let options = NatsOptions::default().config(format!("authorization {{ users: [ {{ nkey: {NAME} }} ] }}"));
    let server = harness::Nats::start(NatsKind::Nats210, options).await;
    gets_in(nats(server.url()).nkey(SEED)).await;
    stays_out(nats(server.url()).nkey(OTHER_SEED)).await;
    stays_out(nats(server.url())).await;
}

#[tokio::test]
async fn credentials_are_claims_and_the_key_that_they_are_about() {
    let operator = format!("operator: {OPERATOR}\nresolver: MEMORY\nresolver_preload: {{ {ACCOUNT_NAME}: {ACCOUNT} }}");
    for kind in NatsKind::ALL {
        let options = NatsOptions::default().core_only().config(operator.clone());
        let server = harness::Nats::start(kind, options).await;
        gets_in(nats(server.url()).credentials(creds(USER, USER_SEED))).await;
        stays_out(nats(server.url()).credentials(creds(USER, OTHER_SEED))).await;
        stays_out(nats(server.url())).await;
    }
}

#[tokio::test]
async fn tls_verifies_the_server_and_shows_the_client() {
    let server = harness::Nats::start(NatsKind::Nats210, NatsOptions::default().tls(NatsTls::Verified)).await;
    let tls = server.tls().unwrap();
    let pem = |path: &std::path::Path| fs::read(path).unwrap();
    let trusting = || nats(server.url()).authority(pem(&tls.ca));
    let shown = || trusting().client_certificate(pem(&tls.client_certificate), pem(&tls.client_key));
    gets_in(shown()).await;
    stays_out(trusting()).await;

    // Another authority's server, another host's certificate, and a server that speaks no TLS.
    let other = harness::Nats::start(NatsKind::Nats215, NatsOptions::default().tls(NatsTls::On)).await;
    gets_in(nats(other.url()).authority(pem(&other.tls().unwrap().ca))).await;
    let plain = super::server().await;
    for (nats, word) in [
        (nats(other.url()).authority(pem(&tls.ca)), "TLS failed"),
        (
            nats(format!("tls://127.0.0.2:{}", other.port())).authority(pem(&other.tls().unwrap().ca)),
            "couldn't connect to 127.0.0.2:",
        ),
        (nats(format!("tls://127.0.0.1:{}", plain.port())).authority(pem(&tls.ca)), "TLS"),
    ] {
        let topic = Counted::topic(&broker_of(nats, Limits::default())).unwrap();
        let failed = topic.publish(&"a".to_owned(), &counted(1)).await.unwrap_err();
        assert_eq!(failed.outcome(), Outcome::NotApplied);
        assert!(failed.is_transient() && whole_text(&failed).contains(word), "{}", whole_text(&failed));
    }
}

#[tokio::test]
async fn tls_comes_first_where_the_server_wants_it_so() {
    let options = NatsOptions::default().tls(NatsTls::First);
    let server = harness::Nats::start(NatsKind::Nats215, options).await;
    let ca = fs::read(&server.tls().unwrap().ca).unwrap();
    gets_in(nats(server.url()).authority(ca.clone()).tls_first()).await;
    let limits = Limits::default().timeout(Duration::from_millis(300));
    let topic = Counted::topic(&broker_of(nats(server.url()).authority(ca), limits)).unwrap();
    assert_eq!(refused(&topic, "a").await.1, Outcome::NotApplied);
}
