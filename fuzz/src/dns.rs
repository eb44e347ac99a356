//! Responses of DNS servers to dynamic updates, and names.
//!
//! The parsers are those of the server. Signatures have one byte here, so that the fuzzer can find valid ones.

use dns_message::{RecordAction, RecordUpdate, UpdateResult};
use dns_name::DnsName;
use tsig::TsigKey;

#[expect(
    dead_code,
    reason = "the server also removes records, and sends the message"
)]
#[path = "../../crates/tls/src/acme/dns_message.rs"]
mod dns_message;
#[path = "../../crates/tls/src/acme/dns_name.rs"]
mod dns_name;

/// Replaces the keys of RFC 8945.
mod tsig {
    use super::dns_name::DnsName;

    pub(super) struct TsigKey {
        pub(super) name: DnsName,
        pub(super) algorithm: DnsName,
    }

    impl TsigKey {
        pub(super) fn sign(&self, pieces: &[&[u8]]) -> Vec<u8> {
            let bytes = pieces.iter().copied().flatten();
            vec![bytes.fold(0, |sum, byte| byte.wrapping_add(sum))]
        }

        pub(super) fn verifies(&self, pieces: &[&[u8]], mac: &[u8]) -> bool {
            self.sign(pieces) == mac
        }
    }
}

/// Arbitrary bytes cause no panic. A successful response has the id of the request and a signature of the right length, and the same
/// bytes are not a response to another request.
pub fn response(data: &[u8]) {
    let name = |text| DnsName::parse(text).expect("a name");
    let key = TsigKey {
        name: name("galley"),
        algorithm: name("hmac-sha256"),
    };
    let update = RecordUpdate {
        zone: &name("example.com"),
        name: &name("_acme-challenge.example.com"),
        value: "proof",
        action: RecordAction::Add,
    };
    let request = |id| dns_message::request(&update, id, NOW_S, &key).expect("a request");
    let read = |id| dns_message::response(data, &request(id), NOW_S, &key);
    if read(ID) == Ok(UpdateResult::Done) {
        assert_eq!(data.get(..2), Some(&ID.to_be_bytes()[..]));
        assert_eq!(data.get(3).map(|byte| byte & 0b1111), Some(0));
        assert!(data.len() > SIGNED);
        assert!(read(ID + 1).is_err());
    }
}

/// A written name is read back unchanged, and skipping a name consumes a prefix of the bytes.
pub fn name(data: &[u8]) {
    if let Some(rest) = dns_name::skip(data) {
        assert!(rest.len() < data.len() && data.ends_with(rest));
    }
    if let Some(name) = std::str::from_utf8(data).ok().and_then(DnsName::parse) {
        assert!(name.bytes().len() <= 255);
        let message = [name.bytes(), data].concat();
        assert_eq!(dns_name::skip(&message), Some(data));
    }
}

const ID: u16 = 0x1234;

const NOW_S: u64 = 1_700_000_000;

/// Length of a header and a signature record with empty names.
const SIGNED: usize = 12 + 1 + 10 + 1 + 16;
