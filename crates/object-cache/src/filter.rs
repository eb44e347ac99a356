//! Which keys have no value: a Bloom filter that goes to PHP with the first answer, so that PHP never asks for a value that does not exist.
//!
//! A bit that is not set is certain. Values that end leave their bits, until the filter is made anew.

/// The keys that may have a value. Three bits for each key, from its CRC-32: PHP computes it in one call.
#[derive(Debug)]
pub(crate) struct KeyFilter {
    bits: Vec<u8>,
    /// Keys that were added since it was made.
    added: usize,
}

impl KeyFilter {
    /// A filter of these keys, with room for as many more.
    pub(crate) fn of<'a>(count: usize, keys: impl Iterator<Item = &'a [u8]>) -> Self {
        let bits = (count * BITS_OF_KEY).next_power_of_two();
        let bytes = (bits / 8).clamp(MIN_BYTES, MAX_BYTES);
        let mut filter = Self {
            bits: vec![0; bytes],
            added: 0,
        };
        keys.for_each(|key| filter.add(key));
        filter.added = 0;
        filter
    }

    /// A filter of no keys.
    pub(crate) fn empty() -> Self {
        Self::of(0, std::iter::empty())
    }

    /// A filter for a store whose keys are not in it yet: it is made anew before its first use.
    pub(crate) fn unknown() -> Self {
        Self {
            added: usize::MAX / 2,
            ..Self::empty()
        }
    }

    /// The bits. Their number is a power of two.
    pub(crate) fn bits(&self) -> &[u8] {
        &self.bits
    }

    pub(crate) fn add(&mut self, key: &[u8]) {
        for bit in places(self.bits.len(), key) {
            self.bits[bit / 8] |= 1 << (bit % 8);
        }
        self.added += 1;
    }

    /// Whether a new filter would say more, as the store has `count` keys now.
    pub(crate) fn is_old(&self, count: usize) -> bool {
        self.added > MIN_BYTES && self.added > count / 2
    }
}

/// The bits of a key in a filter of so many bytes.
fn places(bytes: usize, key: &[u8]) -> [usize; 3] {
    let hash = crc32(key) as usize;
    [0, 7, 14].map(|shift| (hash >> shift) & (bytes * 8 - 1))
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}

/// One key in a thousand has a value by mistake, and one in two hundred before the filter is made anew.
const BITS_OF_KEY: usize = 32;

const MIN_BYTES: usize = 512;

/// Enough for 16,000 keys; with more, PHP asks in vain more often.
const MAX_BYTES: usize = 32 << 10;

/// As PHP finds out whether a key may have a value.
#[cfg(test)]
pub(crate) fn may_have(bits: &[u8], key: &[u8]) -> bool {
    let mut places = places(bits.len(), key).into_iter();
    places.all(|bit| bits[bit / 8] >> (bit % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_php() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn each_key_is_found_and_few_others_are() {
        let keys: Vec<String> = (0..5000).map(|n| format!("\u{5}posts{n}")).collect();
        let (first, more) = keys.split_at(3000);
        let mut filter = KeyFilter::of(first.len(), first.iter().map(String::as_bytes));
        for key in more {
            filter.add(key.as_bytes());
        }
        assert!(
            keys.iter()
                .all(|key| may_have(filter.bits(), key.as_bytes()))
        );
        let others =
            (0..5000).filter(|n| may_have(filter.bits(), format!("\u{5}terms{n}").as_bytes()));
        // 0.1 % are expected: 5,000 keys set 11 % of 131,072 bits.
        assert!(others.count() < 25);
        assert!(filter.is_old(3000) && !filter.is_old(5000));
    }
}
