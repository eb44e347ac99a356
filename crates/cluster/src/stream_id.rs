//! Ids of stream entries: `<milliseconds>-<number>`, in rising order.

use std::fmt;

/// The id of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId {
    milliseconds: u64,
    number: u64,
}

impl StreamId {
    /// The id before the first entry.
    pub(crate) const START: Self = Self {
        milliseconds: 0,
        number: 0,
    };

    /// The id in 16 bytes: both numbers, little-endian.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.number) << 64 | u128::from(self.milliseconds)).to_le_bytes()
    }

    /// The id in 16 bytes.
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        let (milliseconds, number) = bytes.split_at(8);
        let number_of = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        Self {
            milliseconds: number_of(milliseconds),
            number: number_of(number),
        }
    }

    /// The first id of a millisecond, or the one after `last` if that is later. `ahead`: milliseconds to be added.
    pub(crate) fn after(last: Self, now_ms: u64, ahead: u64) -> Self {
        if now_ms <= last.milliseconds && ahead == 0 {
            return last.next();
        }
        Self {
            milliseconds: now_ms.max(last.milliseconds).saturating_add(ahead),
            number: 0,
        }
    }

    /// The next possible id.
    pub(crate) fn next(self) -> Self {
        match self.number.checked_add(1) {
            Some(number) => Self { number, ..self },
            None => Self {
                milliseconds: self.milliseconds.saturating_add(1),
                number: 0,
            },
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (milliseconds, number) = text.split_once('-')?;
        Some(Self {
            milliseconds: milliseconds.parse().ok()?,
            number: number.parse().ok()?,
        })
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.milliseconds, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_by_both_numbers() {
        let id = |text| StreamId::parse(text).unwrap();
        assert!(StreamId::START < id("0-1") && id("9-5") < id("10-0") && id("10-2") < id("10-10"));
        assert_eq!(id("12-7").to_string(), "12-7");
        assert_eq!(id("12-7").next(), id("12-8"));
        assert_eq!(id("12-18446744073709551615").next(), id("13-0"));
        assert_eq!(StreamId::from_bytes(id("12-7").to_bytes()), id("12-7"));
        for (last, ahead, wanted) in [
            ("12-7", 0, "20-0"),
            ("20-7", 0, "20-8"),
            ("20-7", 2, "22-0"),
            ("30-7", 0, "30-8"),
            ("30-7", 4, "34-0"),
        ] {
            assert_eq!(StreamId::after(id(last), 20, ahead), id(wanted), "{last}");
        }
        for wrong in [
            "",
            "1",
            "1-",
            "-1",
            "a-1",
            "1-2-3",
            "18446744073709551616-0",
        ] {
            assert_eq!(StreamId::parse(wrong), None, "{wrong}");
        }
    }
}
