//! Ids of stream entries: `<milliseconds>-<number>`, in rising order.

use std::fmt;

/// The id of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId {
    milliseconds: u64,
    number: u64,
}

impl StreamId {
    /// Before the first entry.
    pub(crate) const START: Self = Self {
        milliseconds: 0,
        number: 0,
    };

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
