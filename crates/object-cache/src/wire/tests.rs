//! Messages, whole and damaged.

use proptest::prelude::*;

use super::*;

fn change_bytes(kind: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(7_u64.to_le_bytes());
    bytes.extend(60_u32.to_le_bytes());
    bytes.extend(u32::try_from(key.len()).expect("short").to_le_bytes());
    bytes.extend(u32::try_from(value.len()).expect("short").to_le_bytes());
    bytes.extend(key);
    bytes.extend(value);
    bytes
}

#[test]
fn changes_are_read() {
    let mut bytes = vec![4, 2, 0, 0, 0];
    bytes.extend(change_bytes(1, b"k", b"value"));
    bytes.extend(change_bytes(4, b"key", b""));
    let Some(PhpMessage::Change { changes, .. }) = parse(&bytes) else {
        panic!("not a change");
    };
    assert_eq!(changes[0].kind, ChangeKind::Set);
    assert_eq!((changes[0].lease, changes[0].ttl), (7, 60));
    assert_eq!(
        (changes[0].key, changes[0].value),
        (&b"k"[..], &b"value"[..])
    );
    assert_eq!(changes[1].kind, ChangeKind::Delete);
    bytes.push(0);
    assert!(parse(&bytes).is_none(), "bytes after the end");
}

#[test]
fn a_count_above_the_message_allocates_nothing() {
    assert!(parse(&[3, 255, 255, 255, 127]).is_none());
    assert!(parse(&[4, 255, 255, 255, 255]).is_none());
}

proptest! {
    #[test]
    fn damaged_messages_never_panic(bytes: Vec<u8>, operation in 0_u8..9) {
        let _ = parse(&bytes);
        let _ = parse(&[&[operation], &bytes[..]].concat());
    }

    #[test]
    fn a_message_without_its_end_is_refused(key: Vec<u8>, value: Vec<u8>, cut in 0_usize..64) {
        let mut bytes = vec![5, 1, 0, 0, 0];
        bytes.extend(change_bytes(2, &key, &value));
        let cut = cut % bytes.len();
        prop_assert!(parse(&bytes).is_some());
        prop_assert!(parse(&bytes[..cut]).is_none());
    }
}
