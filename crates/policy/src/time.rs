//! The two kinds of time: ticks of a monotonic clock for ages, dates for header fields.
//!
//! Ages are differences of [`Tick`]s, so a step of the wall clock (a virtual machine that resumes, a correction by NTP)
//! neither expires nor revives stored responses. Wall time is used only for fields that contain it. Nothing here reads a
//! clock, and arithmetic saturates instead of overflowing.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds of a monotonic clock since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The time from `earlier` to this tick; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The tick `d` later, in whole milliseconds.
    #[must_use]
    pub fn plus(self, d: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
        )
    }
}

/// Parses an HTTP date (RFC 9110 §5.6.7) in any of its three forms, in any case (RFC 9111 §4.2).
///
/// `None`: not a date. Other zones than GMT and years before 1970 are invalid. A wrong day of the week is ignored: the date
/// is complete without it, and other caches do not compare it either.
pub fn parse_date(value: &[u8]) -> Option<SystemTime> {
    let value = value.trim_ascii();
    let mut spelled = [0; MAX_DATE];
    let spelled = spelled.get_mut(..value.len())?;
    spelled.copy_from_slice(value);
    spelled.make_ascii_lowercase();
    let zone = if spelled.ends_with(b"gmt") {
        spelled.len().saturating_sub(3)
    } else {
        spelled.len()
    };
    let mut inside_word = false;
    for (position, byte) in spelled.iter_mut().enumerate() {
        if !inside_word || position >= zone {
            byte.make_ascii_uppercase();
        }
        inside_word = byte.is_ascii_alphabetic();
    }
    let text = std::str::from_utf8(spelled).ok()?;
    httpdate::parse_http_date(text)
        .ok()
        .or_else(|| parse_without_weekday(text))
}

/// Parses a date with any day of the week as if the day were right. Does not allocate.
fn parse_without_weekday(text: &str) -> Option<SystemTime> {
    let (day, rest) = text.split_at_checked(text.find([',', ' '])?)?;
    let is_short = day.len() == SHORT_WEEKDAY;
    let spell = |name: &'static str| {
        if is_short {
            name.get(..SHORT_WEEKDAY)
        } else {
            Some(name)
        }
    };
    if !WEEKDAYS.into_iter().any(|name| spell(name) == Some(day)) {
        return None;
    }
    WEEKDAYS.into_iter().find_map(|name| {
        let name = spell(name)?;
        let mut spelled = [0; MAX_DATE];
        let spelled = spelled.get_mut(..name.len().checked_add(rest.len())?)?;
        let (start, end) = spelled.split_at_mut_checked(name.len())?;
        start.copy_from_slice(name.as_bytes());
        end.copy_from_slice(rest.as_bytes());
        httpdate::parse_http_date(std::str::from_utf8(spelled).ok()?).ok()
    })
}

/// Appends `t` as IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`. Times before 1970 or after 9999 give the nearest valid one.
pub fn write_date(t: SystemTime, out: &mut Vec<u8>) {
    let since_epoch = t.duration_since(UNIX_EPOCH).unwrap_or_default();
    let writable = UNIX_EPOCH + since_epoch.min(Duration::from_secs(LAST_SECOND_OF_9999));
    // Writing into a Vec cannot fail.
    let _ = write!(out, "{}", httpdate::HttpDate::from(writable));
}

/// The maximum length of a date. `Wednesday, 06-Nov-94 08:49:37 GMT` has 33 bytes; a little more, for doubled spaces.
const MAX_DATE: usize = 40;

const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// The length of a weekday in two of the three forms.
const SHORT_WEEKDAY: usize = 3;

const LAST_SECOND_OF_9999: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOV_1994: u64 = 784_111_777;

    #[test]
    fn dates_are_parsed_in_all_forms() {
        let table: &[(&str, Option<u64>)] = &[
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(NOV_1994)),
            ("  Sun, 06 Nov 1994 08:49:37 GMT ", Some(NOV_1994)),
            ("sun, 06 nov 1994 08:49:37 gmt", Some(NOV_1994)),
            ("SUN, 06 NOV 1994 08:49:37 GMT", Some(NOV_1994)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(NOV_1994)),
            ("Sun Nov  6 08:49:37 1994", Some(NOV_1994)),
            ("Wed, 11 Jan 1984 05:00:00 GMT", Some(442_645_200)),
            ("Sun, 06 Nov 1994 08:49:37 UTC", None),
            ("Sun, 06 Nov 1994 08:49:37 +0100", None),
            ("Sun, 06 Nov 94 08:49:37 GMT", None),
            // A wrong day of the week is ignored.
            ("Mon, 06 Nov 1994 08:49:37 GMT", Some(NOV_1994)),
            ("Wednesday, 06-Nov-94 08:49:37 GMT", Some(NOV_1994)),
            ("thu Aug  8 02:01:18 2050", Some(2_543_536_878)),
            ("Mon, 06-Nov-94 08:49:37 GMT", None),
            ("Xyz, 06 Nov 1994 08:49:37 GMT", None),
            ("Thu, 31 Feb 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37", None),
            ("Thu, 31 Feb 1994 08:49:37 GMT", None),
            ("0", None),
            ("-1", None),
            ("", None),
            (
                "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
                None,
            ),
        ];
        for (text, wanted) in table {
            let found = parse_date(text.as_bytes());
            assert_eq!(
                found,
                wanted.map(|s| UNIX_EPOCH + Duration::from_secs(s)),
                "{text}"
            );
        }
    }

    #[test]
    fn dates_are_clamped() {
        let mut out = Vec::new();
        write_date(UNIX_EPOCH - Duration::from_secs(5), &mut out);
        assert_eq!(out, b"Thu, 01 Jan 1970 00:00:00 GMT");
        out.clear();
        write_date(
            UNIX_EPOCH + Duration::from_secs(u64::from(u32::MAX) * 1000),
            &mut out,
        );
        assert_eq!(out, b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn ticks_saturate() {
        assert_eq!(Tick(5).since(Tick(3)), Duration::from_millis(2));
        assert_eq!(Tick(3).since(Tick(5)), Duration::ZERO);
        assert_eq!(Tick(3).plus(Duration::from_micros(2_999)), Tick(5));
        assert_eq!(Tick(3).plus(Duration::MAX), Tick(u64::MAX));
    }

    proptest! {
        #[test]
        fn parsing_never_panics(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse_date(&value);
        }

        #[test]
        fn near_dates_never_panic(value in "[A-Za-z]{3,9},? [0-9]{2}[ -][A-Za-z]{3}[ -][0-9]{2,4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT") {
            let _ = parse_date(value.as_bytes());
        }

        #[test]
        fn written_dates_are_parsed_to_the_same_time(seconds in 0..LAST_SECOND_OF_9999) {
            let mut out = Vec::new();
            write_date(UNIX_EPOCH + Duration::from_secs(seconds), &mut out);
            prop_assert_eq!(parse_date(&out), Some(UNIX_EPOCH + Duration::from_secs(seconds)));
        }
    }
}
