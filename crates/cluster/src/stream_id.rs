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
