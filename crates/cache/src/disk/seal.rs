//! The directory's key, and its uses: names of files and checksums.
//!
//! Names are a keyed hash, so that clients cannot put many pages into one directory. Checksums are keyed, too, so a file of
//! another cache directory counts as damaged. Checksums detect damage and mix-ups. They do not protect from an attacker who
//! can read the key.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher};

use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher24};

/// The site to whose share of the disk an entry belongs; made by `Disk::site`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(u32);

/// The identity of a site in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteName {
    /// The keyed hash of the site's name.
    pub id: SiteId,
    /// The fingerprint of the rules that determine keys and scopes. Files with another fingerprint are invalid.
    pub fingerprint: u64,
}

/// The 128-bit name of an entry's file: the site's id in 32 bits, then 96 bits of the key's hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(pub(super) [u8; 16]);

impl FileName {
    /// The site of the entry.
    pub fn site(&self) -> SiteId {
        let [a, b, c, d, ..] = self.0;
        SiteId(u32::from_be_bytes([a, b, c, d]))
    }

    /// The directory of the file, one of [`BUCKETS`].
    pub(super) fn bucket(&self) -> usize {
        usize::from(self.0[4] >> 4) << 8 | usize::from(self.0[5])
    }

    /// Parses a name in a directory: 32 lowercase hexadecimal digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 32 || !text.bytes().all(is_hex) {
            return None;
        }
        let number = u128::from_str_radix(text, 16).ok()?;
        Some(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

/// The key of a directory.
pub(super) struct DirectoryKey {
    names: [u64; 2],
    sums: [u64; 2],
}

impl DirectoryKey {
    pub(super) fn new(key: [u8; 16]) -> Self {
        let key = u128::from_le_bytes(key);
        let low = u64::try_from(key & u128::from(u64::MAX)).unwrap_or(0);
        let high = u64::try_from(key >> 64).unwrap_or(0);
        Self {
            names: [low, high],
            // A separate key for the same hash family, so that no checksum equals a name.
            sums: [low ^ SUMS, high ^ SUMS],
        }
    }

    pub(super) fn site(&self, name: &str) -> SiteId {
        let mut sum = self.sum();
        sum.write(name.as_bytes());
        let hash = sum.finish();
        SiteId(u32::try_from(hash >> 32).unwrap_or(0))
    }

    pub(super) fn name(&self, site: SiteId, key: &[u8]) -> FileName {
        let mut hasher = SipHasher24::new_with_keys(self.names[0], self.names[1]);
        hasher.write(&site.0.to_le_bytes());
        hasher.write(key);
        let mut name = u128::from(hasher.finish128()).to_be_bytes();
        name[..4].copy_from_slice(&site.0.to_be_bytes());
        FileName(name)
    }

    /// A checksum that is computed incrementally.
    pub(super) fn sum(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.sums[0], self.sums[1])
    }

    /// The checksum of one piece.
    pub(super) fn sum_of(&self, bytes: &[u8]) -> u64 {
        self.sum().hash(bytes)
    }
}

/// Unpredictable bytes. The kernel's generator does not block except shortly after a boot.
pub(super) fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    let flags = rustix::rand::GetRandomFlags::empty();
    if rustix::rand::getrandom(&mut bytes[..], flags) == Ok(bytes.len()) {
        return bytes;
    }
    // Only for very old kernels: the seed of the hash tables is random, too, but less so.
    let seed = std::hash::RandomState::new();
    let halves = u128::from(seed.hash_one(1)) << 64 | u128::from(seed.hash_one(2));
    halves.to_le_bytes()
}

/// The number of directories: 16 on the first level, and 256 below each of them.
pub(super) const BUCKETS: usize = 16 * 256;

const SUMS: u64 = 0x6761_6c6c_6579_7375;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_other_texts_are_rejected() {
        let seal = DirectoryKey::new([7; 16]);
        let site = seal.site("a.test");
        let name = seal.name(site, b"/a");
        assert_eq!(FileName::parse(&name.to_string()), Some(name));
        assert_eq!(name.site(), site);
        assert!(name.bucket() < BUCKETS);
        for text in [
            "",
            "0",
            "+0000000000000000000000000000000",
            "0000000000000000000000000000000G",
        ] {
            assert_eq!(FileName::parse(text), None, "{text}");
        }
        assert_eq!(FileName::parse(&"A".repeat(32)), None, "one spelling only");
    }

    #[test]
    fn names_depend_on_key_site_and_page() {
        let seal = DirectoryKey::new([7; 16]);
        let other = DirectoryKey::new([8; 16]);
        let site = seal.site("a.test");
        let name = seal.name(site, b"/a");
        assert_ne!(name.0[4..], other.name(site, b"/a").0[4..]);
        assert_ne!(name.0[4..], seal.name(seal.site("b.test"), b"/a").0[4..]);
        assert_ne!(name.0[4..], seal.name(site, b"/b").0[4..]);
        assert_ne!(seal.sum_of(b"x"), other.sum_of(b"x"));
        assert_ne!(random(), random());
    }
}
