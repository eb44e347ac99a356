//! Changes DNS records by dynamic updates (RFC 2136), signed with a key that the server knows.
//!
//! The zone of a name is found by trying: an update for a zone that the server does not have changes nothing. Updates use TCP,
//! so that only an attacker who can read the connection could forge a response.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use galley_certs::file;
use galley_config::{DnsServer, MAX_TOKEN_FILE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::dns_message::{self, RecordAction, RecordUpdate, UpdateResult};
use super::dns_name::DnsName;
use super::tsig::TsigKey;

/// Adds or removes the TXT record `name` with this value. The error is a text for people.
pub(super) async fn change(
    server: &DnsServer,
    action: RecordAction,
    name: &str,
    value: &str,
) -> Result<(), String> {
    let shown = server.key_file.display();
    let text = file::read_text(&server.key_file, MAX_TOKEN_FILE)
        .map_err(|unread| format!("`{shown}`, {unread}"))?;
    let key = TsigKey::parse(&text).map_err(|bad| format!("`{shown}`, {bad}"))?;
    let record = DnsName::parse(name).ok_or("it is no name of the DNS")?;
    let mut refused = None;
    for zone in zones(name) {
        let Some(zone) = DnsName::parse(zone) else {
            continue;
        };
        let update = RecordUpdate {
            zone: &zone,
            name: &record,
            value,
            action,
        };
        match send(&server.address, &update, &key).await? {
            UpdateResult::Done => return Ok(()),
            UpdateResult::OtherZone => {}
            // Some servers use this code for zones that they do not have.
            UpdateResult::Refused(REFUSED) => refused = Some(REFUSED),
            UpdateResult::Refused(code) => return Err(refusal(&server.address, code)),
            UpdateResult::BadSignature(code) => return Err(of_key(&server.address, code)),
        }
    }
    Err(match refused {
        Some(code) => refusal(&server.address, code),
        None => format!("`{}` has no zone for it", server.address),
    })
}

/// The name itself and its parent domains, the nearest first.
fn zones(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| Some(name.split_once('.')?.1)).take(MAX_ZONES)
}

async fn send(
    address: &str,
    update: &RecordUpdate<'_>,
    key: &TsigKey,
) -> Result<UpdateResult, String> {
    let mut id = [0; 2];
    rand::fill(&mut id).map_err(|_| "there are no random numbers")?;
    let request = dns_message::request(update, u16::from_be_bytes(id), now_s(), key)
        .ok_or("the proof is too long for a record")?;
    let exchanged = timeout(TIMEOUT, exchange(address, &request.message)).await;
    let response = exchanged
        .map_err(|_elapsed| format!("`{address}` did not respond within {TIMEOUT:?}"))?
        .map_err(|error| format!("`{address}`: {error}"))?;
    dns_message::response(&response, &request, now_s(), key)
        .map_err(|bad| format!("`{address}`: {bad}"))
}

/// Sends one message and receives one, each with its length in front (RFC 1035 section 4.2.2).
async fn exchange(address: &str, message: &[u8]) -> io::Result<Vec<u8>> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    let mut stream = TcpStream::connect(address).await?;
    let framed = [&length.to_be_bytes(), message].concat();
    stream.write_all(&framed).await?;
    let mut response = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut response).await?;
    Ok(response)
}

fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn refusal(address: &str, code: u16) -> String {
    let why = match code {
        1 => "cannot read the update",
        2 => "failed (SERVFAIL)",
        4 => "takes no dynamic updates",
        REFUSED => "does not permit the key to change the zone (REFUSED)",
        other => return format!("`{address}` refused the update with code {other}"),
    };
    format!("`{address}` {why}")
}

fn of_key(address: &str, code: u16) -> String {
    let why = match code {
        16 => "has another secret for the key (BADSIG)",
        17 => "does not know the key or its algorithm (BADKEY)",
        18 => "has another time (BADTIME): set the clocks",
        other => return format!("`{address}` rejected the key with code {other}"),
    };
    format!("`{address}` {why}")
}

const REFUSED: u16 = 5;

/// The time limit for one request. A server that signs its zone may need some seconds.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The maximum number of zones that are tried for one name.
const MAX_ZONES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_tried_from_the_nearest() {
        let all: Vec<&str> = zones("_acme-challenge.a.example.com").collect();
        let wanted = [
            "_acme-challenge.a.example.com",
            "a.example.com",
            "example.com",
            "com",
        ];
        assert_eq!(all, wanted);
        assert_eq!(zones(&"a.".repeat(100)).count(), MAX_ZONES);
    }

    #[tokio::test]
    async fn errors_name_the_file_or_server() {
        let folder = tempfile::tempdir().unwrap();
        let key_file = folder.path().join("tsig.key");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = DnsServer {
            address: listener.local_addr().unwrap().to_string(),
            key_file: key_file.clone(),
        };
        let change = || change(&server, RecordAction::Add, "_acme-challenge.a.test", "x");
        let missing = change().await.unwrap_err();
        assert!(
            missing.contains("tsig.key`, which cannot be read"),
            "{missing}"
        );
        std::fs::write(&key_file, "no key").unwrap();
        let bad = change().await.unwrap_err();
        assert!(bad.contains("which is not a key"), "{bad}");
        let text = "key a { algorithm hmac-sha256; secret c2VjcmV0; };";
        std::fs::write(&key_file, text).unwrap();
        // The server accepts, reads nothing and closes.
        let closing = tokio::spawn(async move { listener.accept().await.map(|_| ()) });
        let closed = change().await.unwrap_err();
        assert!(
            closed.starts_with(&format!("`{}`: ", server.address)),
            "{closed}"
        );
        closing.await.unwrap().unwrap();
    }
}
