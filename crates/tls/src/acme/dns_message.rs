//! A dynamic update of the DNS (RFC 2136) with its signature (TSIG, RFC 8945), as bytes.
//!
//! One message adds or removes one TXT record; other values of the same name are kept. A response counts only with a
//! signature of the same key that covers the request's signature, so that an attacker on the network cannot respond for the
//! server.
//!
//! ```text
//! id u16 | flags u16 | zones u16 | prerequisites u16 | updates u16 | additional u16
//! zone   name | SOA u16 | IN u16
//! update name | TXT u16 | class u16 | ttl u32 | length u16 | length u8 text
//! TSIG   key name | 250 u16 | ANY u16 | ttl u32 | length u16 |
//!        algorithm name | time u48 | fudge u16 | length u16 mac | id u16 | error u16 | length u16 other
//! ```

use super::dns_name::{self, DnsName};
use super::tsig::TsigKey;

/// A change to one TXT record.
pub(super) struct RecordUpdate<'a> {
    pub(super) zone: &'a DnsName,
    pub(super) name: &'a DnsName,
    /// The text of the record, at most 255 bytes.
    pub(super) value: &'a str,
    pub(super) action: RecordAction,
}

/// The change of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordAction {
    Add,
    Remove,
}

/// A request with the data for verifying the signature of its response.
pub(super) struct SignedRequest {
    pub(super) message: Vec<u8>,
    id: u16,
    mac: Vec<u8>,
}

/// The result that a server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpdateResult {
    /// The change was made.
    Done,
    /// The zone is not the right one: another must be tried.
    OtherZone,
    /// The server rejected the change: the code of RFC 2136 section 2.2.
    Refused(u16),
    /// The server rejected the signature: the code of RFC 8945 section 3.
    BadSignature(u16),
}

/// The message is not a response to the request, or is not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the response is not a signed response to the update")]
pub(super) struct BadUpdateResponse;

/// Creates the request at the time `now_s`, in seconds since 1970. `None`: the value is too long for a record.
pub(super) fn request(
    update: &RecordUpdate<'_>,
    id: u16,
    now_s: u64,
    key: &TsigKey,
) -> Option<SignedRequest> {
    let text_length = u8::try_from(update.value.len()).ok()?;
    let (class, ttl) = match update.action {
        RecordAction::Add => (CLASS_IN, TTL_S),
        RecordAction::Remove => (CLASS_NONE, 0),
    };
    let mut out = Vec::with_capacity(512);
    for word in [id, FLAGS_UPDATE, 1, 0, 1, 0] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(update.zone.bytes());
    put(&mut out, &[TYPE_SOA, CLASS_IN]);
    out.extend_from_slice(update.name.bytes());
    put(&mut out, &[TYPE_TXT, class]);
    out.extend_from_slice(&ttl.to_be_bytes());
    put(&mut out, &[u16::from(text_length) + 1]);
    out.push(text_length);
    out.extend_from_slice(update.value.as_bytes());

    let variables = variables(key, &time(now_s), FUDGE_S, 0, &[]);
    let mac = key.sign(&[&out, &variables]);
    let mac_length = u16::try_from(mac.len()).ok()?;
    // The number of additional records.
    *out.get_mut(11)? = 1;
    out.extend_from_slice(key.name.bytes());
    put(&mut out, &[TYPE_TSIG, CLASS_ANY, 0, 0]);
    let algorithm = key.algorithm.bytes();
    let length = algorithm.len() + mac.len() + TSIG_FIXED;
    put(&mut out, &[u16::try_from(length).ok()?]);
    out.extend_from_slice(algorithm);
    out.extend_from_slice(&time(now_s));
    put(&mut out, &[FUDGE_S, mac_length]);
    out.extend_from_slice(&mac);
    put(&mut out, &[id, 0, 0]);
    Some(SignedRequest {
        message: out,
        id,
        mac,
    })
}

/// Reads the response to `request`, received at `now_s`.
pub(super) fn response(
    message: &[u8],
    request: &SignedRequest,
    now_s: u64,
    key: &TsigKey,
) -> Result<UpdateResult, BadUpdateResponse> {
    let read = read(message).ok_or(BadUpdateResponse)?;
    if read.id != request.id || read.flags & FLAGS_KIND != FLAGS_UPDATE | FLAG_RESPONSE {
        return Err(BadUpdateResponse);
    }
    let code = read.flags & FLAGS_CODE;
    let Some(tsig) = read.tsig else {
        // Knot reports an unknown zone without a signature. An unsigned error may be forged; it only means that no change was made.
        return match code {
            0 => Err(BadUpdateResponse),
            code => Ok(of_code(code)),
        };
    };
    if tsig.mac.is_empty() && tsig.error != 0 {
        return Ok(UpdateResult::BadSignature(tsig.error));
    }
    let mac_length = u16::try_from(request.mac.len()).map_err(|_| BadUpdateResponse)?;
    // The signature covers the message with the id of the request, and without the signature record.
    let (head, body) = tsig.before.split_at_checked(12).ok_or(BadUpdateResponse)?;
    let mut head = head.to_vec();
    let signed_records = read.additional - 1;
    if let Some(count) = head.get_mut(10..12) {
        count.copy_from_slice(&signed_records.to_be_bytes());
    }
    let variables = variables(key, tsig.time, tsig.fudge, tsig.error, tsig.other);
    let mac_length = mac_length.to_be_bytes();
    let pieces = [&mac_length, &request.mac[..], &head, body, &variables];
    if !key.verifies(&pieces, tsig.mac) {
        return Err(BadUpdateResponse);
    }
    if tsig.error != 0 {
        return Ok(UpdateResult::BadSignature(tsig.error));
    }
    if now_s.abs_diff(seconds(tsig.time)) > u64::from(tsig.fudge) {
        return Err(BadUpdateResponse);
    }
    Ok(of_code(code))
}

fn of_code(code: u16) -> UpdateResult {
    match code {
        0 => UpdateResult::Done,
        NOT_AUTHORITATIVE | NOT_IN_ZONE => UpdateResult::OtherZone,
        code => UpdateResult::Refused(code),
    }
}

/// The relevant parts of a response.
struct UpdateResponse<'a> {
    id: u16,
    flags: u16,
    /// The number of records in the additional section.
    additional: u16,
    tsig: Option<TsigRecord<'a>>,
}

struct TsigRecord<'a> {
    /// The part of the message before the signature record.
    before: &'a [u8],
    time: &'a [u8],
    fudge: u16,
    mac: &'a [u8],
    error: u16,
    other: &'a [u8],
}

fn read(message: &[u8]) -> Option<UpdateResponse<'_>> {
    let (id, rest) = word(message)?;
    let (flags, rest) = word(rest)?;
    let (zones, rest) = word(rest)?;
    let (prerequisites, rest) = word(rest)?;
    let (updates, rest) = word(rest)?;
    let (additional, mut rest) = word(rest)?;
    for _ in 0..zones {
        rest = dns_name::skip(rest)?.get(4..)?;
    }
    let records = u32::from(prerequisites) + u32::from(updates) + u32::from(additional);
    let mut tsig = None;
    for number in 1..=records {
        let before = message.get(..message.len() - rest.len())?;
        let (kind, behind) = word(dns_name::skip(rest)?)?;
        let (length, content) = word(behind.get(6..)?)?;
        let (content, behind) = content.split_at_checked(usize::from(length))?;
        rest = behind;
        if kind == TYPE_TSIG {
            // The signature record must be the last one (RFC 8945 section 5.2).
            if number != records || additional == 0 {
                return None;
            }
            tsig = Some(read_tsig(before, content)?);
        }
    }
    rest.is_empty().then_some(UpdateResponse {
        id,
        flags,
        additional,
        tsig,
    })
}

fn read_tsig<'a>(before: &'a [u8], content: &'a [u8]) -> Option<TsigRecord<'a>> {
    let rest = dns_name::skip(content)?;
    let (time, rest) = rest.split_at_checked(6)?;
    let (fudge, rest) = word(rest)?;
    let (length, rest) = word(rest)?;
    let (mac, rest) = rest.split_at_checked(usize::from(length))?;
    let (_original_id, rest) = word(rest)?;
    let (error, rest) = word(rest)?;
    let (length, other) = word(rest)?;
    (other.len() == usize::from(length)).then_some(TsigRecord {
        before,
        time,
        fudge,
        mac,
        error,
        other,
    })
}

/// The signed part of the signature record (RFC 8945 section 4.3.3).
fn variables(key: &TsigKey, time: &[u8], fudge: u16, error: u16, other: &[u8]) -> Vec<u8> {
    let mut out = key.name.bytes().to_vec();
    put(&mut out, &[CLASS_ANY, 0, 0]);
    out.extend_from_slice(key.algorithm.bytes());
    out.extend_from_slice(time);
    let length = u16::try_from(other.len()).unwrap_or(u16::MAX);
    put(&mut out, &[fudge, error, length]);
    out.extend_from_slice(other);
    out
}

fn put(out: &mut Vec<u8>, words: &[u16]) {
    out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
}

fn word(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u16::from_be_bytes(*word), rest))
}

/// A time as 48 bits.
fn time(seconds: u64) -> [u8; 6] {
    let [_, _, rest @ ..] = seconds.to_be_bytes();
    rest
}

fn seconds(time: &[u8]) -> u64 {
    time.iter()
        .fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

const TYPE_SOA: u16 = 6;
const TYPE_TXT: u16 = 16;
const TYPE_TSIG: u16 = 250;
const CLASS_IN: u16 = 1;
const CLASS_NONE: u16 = 254;
const CLASS_ANY: u16 = 255;

/// Opcode 5 (RFC 2136 section 2.2); the other flags are zero in a request.
const FLAGS_UPDATE: u16 = 5 << 11;
const FLAG_RESPONSE: u16 = 1 << 15;
/// The response flag and the opcode.
const FLAGS_KIND: u16 = 0b1111_1000_0000_0000;
const FLAGS_CODE: u16 = 0b1111;

const NOT_AUTHORITATIVE: u16 = 9;
const NOT_IN_ZONE: u16 = 10;

/// The TTL of the record in seconds. The record exists for about a minute.
const TTL_S: u32 = 60;

/// The permitted difference of the clocks in seconds, as RFC 8945 section 10 recommends.
const FUDGE_S: u16 = 300;

/// The length of the fixed fields of a signature record in bytes: time, fudge, length of the MAC, id, error, length of other data.
const TSIG_FIXED: usize = 6 + 2 + 2 + 2 + 2 + 2;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW_S: u64 = 1_700_000_000;

    fn key(secret: &str) -> TsigKey {
        let text = format!("key galley {{ algorithm hmac-sha256; secret {secret}; }};");
        TsigKey::parse(&text).unwrap()
    }

    fn signed(action: RecordAction) -> SignedRequest {
        let (zone, name) = ("example.com", "_acme-challenge.example.com");
        let update = RecordUpdate {
            zone: &DnsName::parse(zone).unwrap(),
            name: &DnsName::parse(name).unwrap(),
            value: "proof",
            action,
        };
        request(&update, 0x1234, NOW_S, &key("c2VjcmV0")).unwrap()
    }

    /// The response of a server with `key` at `now_s`.
    fn signed_response(request: &SignedRequest, code: u16, now_s: u64, key: &TsigKey) -> Vec<u8> {
        let mut out = Vec::new();
        put(
            &mut out,
            &[0x1234, FLAGS_UPDATE | FLAG_RESPONSE | code, 0, 0, 0, 0],
        );
        let variables = variables(key, &time(now_s), FUDGE_S, 0, &[]);
        let length = u16::try_from(request.mac.len()).unwrap().to_be_bytes();
        let mac = key.sign(&[&length, &request.mac, &out, &variables]);
        out[11] = 1;
        out.extend_from_slice(key.name.bytes());
        put(&mut out, &[TYPE_TSIG, CLASS_ANY, 0, 0]);
        let rest = key.algorithm.bytes().len() + mac.len() + TSIG_FIXED;
        put(&mut out, &[u16::try_from(rest).unwrap()]);
        out.extend_from_slice(key.algorithm.bytes());
        out.extend_from_slice(&time(now_s));
        put(&mut out, &[FUDGE_S, u16::try_from(mac.len()).unwrap()]);
        out.extend_from_slice(&mac);
        put(&mut out, &[0x1234, 0, 0]);
        out
    }

    #[test]
    fn a_record_is_added_or_removed_with_its_value() {
        for (action, class, ttl) in [(RecordAction::Add, 1, 60), (RecordAction::Remove, 254, 0)] {
            let message = signed(action).message;
            let mut wanted =
                b"\x12\x34\x28\x00\0\x01\0\0\0\x01\0\x01\x07example\x03com\0\0\x06\0\x01\
                \x0f_acme-challenge\x07example\x03com\0\0\x10"
                    .to_vec();
            wanted.extend_from_slice(&[0, class, 0, 0, 0, ttl, 0, 6, 5]);
            wanted
                .extend_from_slice(b"proof\x06galley\0\0\xfa\0\xff\0\0\0\0\0\x3d\x0bhmac-sha256\0");
            assert!(message.starts_with(&wanted), "{message:?}");
            assert!(read(&message).is_some_and(|read| read.tsig.is_some()));
        }
    }

    #[test]
    fn only_a_signed_response_counts() {
        let request = signed(RecordAction::Add);
        let right = key("c2VjcmV0");
        let read = |message: &[u8]| response(message, &request, NOW_S, &right);
        let good = signed_response(&request, 0, NOW_S + 1, &right);
        assert_eq!(read(&good), Ok(UpdateResult::Done));
        for (code, result) in [
            (9, UpdateResult::OtherZone),
            (10, UpdateResult::OtherZone),
            (5, UpdateResult::Refused(5)),
        ] {
            assert_eq!(
                read(&signed_response(&request, code, NOW_S, &right)),
                Ok(result)
            );
        }
        let bad = Err(BadUpdateResponse);
        assert_eq!(
            read(&signed_response(&request, 0, NOW_S, &key("b3RoZXI="))),
            bad
        );
        assert_eq!(
            read(&signed_response(&request, 0, NOW_S - 301, &right)),
            bad,
            "old"
        );
        let other = signed(RecordAction::Remove);
        assert_eq!(
            read(&signed_response(&other, 0, NOW_S, &right)),
            bad,
            "of another request"
        );
        let unsigned = b"\x12\x34\xa8\x00\0\0\0\0\0\0\0\0";
        assert_eq!(read(unsigned), bad);
        let refused = b"\x12\x34\xa8\x05\0\0\0\0\0\0\0\0";
        assert_eq!(read(refused), Ok(UpdateResult::Refused(5)));
        let no_zone = b"\x12\x34\xa8\x09\0\0\0\0\0\0\0\0";
        assert_eq!(read(no_zone), Ok(UpdateResult::OtherZone));
        for at in 0..good.len() {
            assert_eq!(read(&good[..at]), bad, "{at} bytes");
        }
        // The head and the MAC. The six bytes after the MAC are not tested: only the error code among them is signed.
        let mac = good.len() - 6 - 32..good.len() - 6;
        for at in (0..12).chain(mac) {
            let mut changed = good.clone();
            changed[at] ^= 1;
            assert_ne!(read(&changed), Ok(UpdateResult::Done), "byte {at}");
        }
    }

    #[test]
    fn a_rejected_key_is_reported_with_its_code() {
        let request = signed(RecordAction::Add);
        let mut message = b"\x12\x34\xa8\x09\0\0\0\0\0\0\0\x01\x06galley\0\0\xfa\0\xff\0\0\0\0\0\x1d\x0bhmac-sha256\0".to_vec();
        message.extend_from_slice(&[0; 6 + 2 + 2]);
        message.extend_from_slice(b"\x12\x34\0\x11\0\0");
        let read = response(&message, &request, NOW_S, &key("c2VjcmV0"));
        assert_eq!(read, Ok(UpdateResult::BadSignature(17)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(mut bytes: Vec<u8>, has_head: bool) {
            let request = signed(RecordAction::Add);
            if has_head && bytes.len() >= 12 {
                bytes[..4].copy_from_slice(b"\x12\x34\xa8\x00");
                bytes[4..12].iter_mut().for_each(|byte| *byte &= 1);
            }
            let read = response(&bytes, &request, NOW_S, &key("c2VjcmV0"));
            prop_assert_ne!(read, Ok(UpdateResult::Done));
        }
    }
}
