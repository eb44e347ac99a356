//! Identity of an entry: canonical bytes and their hash.
//!
//! `galley_policy::key::write_key` writes the bytes. Equality compares bytes; the hash only selects the slot in the table. The
//! hash's seed is new in each process, so that clients cannot direct many keys to one slot.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

/// A key that owns its bytes; clones share them.
#[derive(Clone)]
pub struct Key {
    bytes: Arc<[u8]>,
    hash: u64,
}

impl Key {
    /// Copies `bytes` and hashes them.
    pub fn new(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.into(),
            hash: hash(bytes),
        }
    }

    /// The canonical bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The hash of the key in the tables of this process. It differs between processes.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.bytes == other.bytes
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.bytes.escape_ascii())
    }
}

/// A key that borrows its bytes, so that lookups allocate nothing.
#[derive(Clone, Copy)]
pub(crate) struct KeyRef<'a> {
    bytes: &'a [u8],
    hash: u64,
}

impl<'a> KeyRef<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            hash: hash(bytes),
        }
    }
}

impl<'a> From<&'a Key> for KeyRef<'a> {
    fn from(key: &'a Key) -> Self {
        Self {
            bytes: &key.bytes,
            hash: key.hash,
        }
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl quick_cache::Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.hash == key.hash && *self.bytes == *key.bytes
    }
}

/// Returns a key's stored hash, so that the table does not hash again.
#[derive(Clone, Copy, Default)]
pub(crate) struct IdentityHash;

impl BuildHasher for IdentityHash {
    type Hasher = PreHashed;

    fn build_hasher(&self) -> PreHashed {
        PreHashed(0)
    }
}

/// See [`IdentityHash`].
pub(crate) struct PreHashed(u64);

impl Hasher for PreHashed {
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        // Keys write one `u64`, so this is never called. Any mixing is correct.
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn hash(bytes: &[u8]) -> u64 {
    static SEED: LazyLock<foldhash::quality::RandomState> = LazyLock::new(Default::default);
    SEED.hash_one(bytes)
}

#[cfg(test)]
mod tests {
    use quick_cache::Equivalent as _;

    use super::*;

    #[test]
    fn equal_by_bytes_and_filed_by_hash() {
        let key = Key::new(b"https example.com /a");
        let same = KeyRef::new(b"https example.com /a");
        let other = Key::new(b"https example.com /b");
        assert!(same.equivalent(&key) && !same.equivalent(&other));
        assert_eq!(key, Key::new(key.bytes()));
        assert_ne!(key, other);
        assert_eq!(IdentityHash.hash_one(&key), IdentityHash.hash_one(same));
        assert_eq!(IdentityHash.hash_one(&key), key.hash());
        assert_eq!(format!("{:?}", Key::new(b"a\0")), "Key(a\\x00)");
    }

    #[test]
    fn colliding_hashes_do_not_make_keys_equal() {
        let one = Key {
            bytes: (*b"one").into(),
            hash: 7,
        };
        let two = Key {
            bytes: (*b"two").into(),
            hash: 7,
        };
        assert_ne!(one, two);
        assert!(!KeyRef::from(&one).equivalent(&two));
    }
}
