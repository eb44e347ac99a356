//! The format of a secret in the engine: encrypted, authenticated with its name, and valid for a time.
//!
//! ```text
//!   1  version
//!   8  end of validity in seconds since 1970, little-endian
//!  12  nonce
//!      AES-256-GCM of the secret
//!  16  tag: of the secret, the version, the time, and kind and name, each with its length
//! ```

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::cluster_key::ClusterKey;

/// The name of a secret for all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretName<'n> {
    /// The kind of the secret.
    pub kind: &'n str,
    /// The name within its kind.
    pub name: &'n str,
}

/// The bytes to be stored. `None`: the encryption has failed.
pub(crate) fn seal(
    key: &ClusterKey,
    name: SecretName<'_>,
    until: SystemTime,
    secret: &[u8],
) -> Option<Vec<u8>> {
    let seconds = until.duration_since(UNIX_EPOCH).unwrap_or_default();
    let head = head(seconds.as_secs());
    let mut encrypted = key.encrypt(&context(head, name)?, secret)?;
    let mut value = head.to_vec();
    value.append(&mut encrypted);
    Some(value)
}

/// The decrypted secret. `None`: no node of this version has stored it under this name, or it has expired.
pub(crate) fn open(
    key: &ClusterKey,
    name: SecretName<'_>,
    now: SystemTime,
    value: &[u8],
) -> Option<Vec<u8>> {
    let (head, encrypted) = value.split_first_chunk::<HEAD>()?;
    let (&version, seconds) = head.split_first()?;
    if version != VERSION {
        return None;
    }
    let seconds = u64::from_le_bytes(*seconds.first_chunk()?);
    let until = UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
    if until <= now {
        return None;
    }
    key.decrypt(&context(*head, name)?, encrypted)
}

fn head(seconds: u64) -> [u8; HEAD] {
    let mut head = [VERSION; HEAD];
    if let Some((_, time)) = head.split_first_mut() {
        time.copy_from_slice(&seconds.to_le_bytes());
    }
    head
}

/// The data that is authenticated in addition to the secret.
fn context(head: [u8; HEAD], name: SecretName<'_>) -> Option<Vec<u8>> {
    let mut context = head.to_vec();
    for part in [name.kind, name.name] {
        context.extend_from_slice(&u32::try_from(part.len()).ok()?.to_le_bytes());
        context.extend_from_slice(part.as_bytes());
    }
    Some(context)
}

const VERSION: u8 = 1;
const HEAD: usize = 1 + 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAME: SecretName<'_> = SecretName {
        kind: "certificate",
        name: "a.test",
    };

    fn key() -> ClusterKey {
        ClusterKey::derive(&[1; 32], "test").unwrap()
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn sealed(secret: &[u8]) -> Vec<u8> {
        seal(&key(), NAME, at(100), secret).unwrap()
    }

    #[test]
    fn a_secret_is_read_under_its_name_while_it_is_valid() {
        let value = sealed(b"secret");
        assert!(!value.windows(6).any(|part| part == b"secret"));
        let read = |name, now| open(&key(), name, at(now), &value);
        assert_eq!(read(NAME, 99).as_deref(), Some(&b"secret"[..]));
        assert_eq!(read(NAME, 100), None);
        for (kind, name) in [
            ("account", "a.test"),
            ("certificate", "b.test"),
            ("certificatea", ".test"),
        ] {
            assert_eq!(read(SecretName { kind, name }, 99), None, "{kind} {name}");
        }
        let another = ClusterKey::derive(&[1; 32], "another").unwrap();
        assert_eq!(open(&another, NAME, at(99), &value), None);
        assert_ne!(sealed(b"secret"), value, "a new nonce each time");
    }

    #[test]
    fn a_value_of_another_version_is_rejected() {
        let mut head = head(100);
        head[0] = VERSION + 1;
        let mut value = head.to_vec();
        value.extend(key().encrypt(&context(head, NAME).unwrap(), b"x").unwrap());
        assert_eq!(open(&key(), NAME, at(1), &value), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_change_is_detected(secret: Vec<u8>, at_byte: usize, bit in 0_u8..8, length: usize) {
            let value = sealed(&secret);
            let mut changed = value.clone();
            changed[at_byte % value.len()] ^= 1 << bit;
            prop_assert_eq!(open(&key(), NAME, at(0), &changed), None);
            let cut = &value[..length % value.len()];
            prop_assert_eq!(open(&key(), NAME, at(0), cut), None);
            prop_assert_eq!(open(&key(), NAME, at(0), &value), Some(secret));
        }

        #[test]
        fn arbitrary_bytes_are_rejected(mut bytes: Vec<u8>) {
            prop_assert_eq!(open(&key(), NAME, at(0), &bytes), None);
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            prop_assert_eq!(open(&key(), NAME, at(0), &bytes), None);
        }
    }
}
