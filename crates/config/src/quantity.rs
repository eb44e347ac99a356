//! The syntax of sizes and durations.
//!
//! A size is a whole number with `B`, `KiB`, `MiB`, `GiB` (powers of 1024) or `kB`, `MB`, `GB` (powers of 1000), or a plain
//! number of bytes. A duration is a whole number with `ms`, `s`, `m`, `h` or `d`. The unit of a duration is required,
//! because a bare number would be ambiguous.

use std::time::Duration;

/// How often a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunInterval {
    /// Never.
    Off,
    /// The time between two starts.
    Every(Duration),
}

/// Parses a size in bytes. `None` if the syntax is invalid or the size exceeds 2^64 - 1.
pub fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" => 1,
        _ => SIZES.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.checked_mul(factor)
}

/// Parses a duration. `None` if the syntax is invalid or the duration exceeds 2^64 - 1 milliseconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let factor = TIMES.iter().find(|(name, _)| *name == unit)?.1;
    number.checked_mul(factor).map(Duration::from_millis)
}

/// Writes a size with the largest binary unit that gives a whole number: `32MiB`.
pub fn write_size(bytes: u64) -> String {
    let fits = |factor: u64| bytes != 0 && bytes.is_multiple_of(factor);
    match SIZES
        .iter()
        .find(|(name, factor)| name.ends_with("iB") && fits(*factor))
    {
        Some((name, factor)) => format!("{}{name}", bytes / factor),
        None => format!("{bytes}B"),
    }
}

/// Writes a size for people, rounded down: `12 MiB`, `1.5 GiB`.
pub fn rounded_size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes / 1024),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes / 1_048_576),
        _ => format!(
            "{}.{} GiB",
            bytes / 1_073_741_824,
            bytes % 1_073_741_824 * 10 / 1_073_741_824
        ),
    }
}

/// Writes a duration in seconds for people, with its two largest units: `3 days 4 h`, `2 min 5 s`.
pub fn rounded_duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let days = match days {
        0 => String::new(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    };
    let unit = |count: u64, unit: &str| match count {
        0 => String::new(),
        count => format!("{count} {unit}"),
    };
    let units = [
        days,
        unit(hours, "h"),
        unit(minutes, "min"),
        unit(seconds % 60, "s"),
    ];
    let first = units.iter().position(|unit| !unit.is_empty());
    let two = first.and_then(|first| units.get(first..units.len().min(first + 2)));
    two.map_or_else(
        || "0 s".to_owned(),
        |two| two.join(" ").trim_end().to_owned(),
    )
}

/// Writes a duration with the largest unit that gives a whole number: `10m`. Fractions of a millisecond are omitted.
pub fn write_duration(time: Duration) -> String {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if ms == 0 {
        return "0s".to_owned();
    }
    match TIMES.iter().find(|(_, factor)| ms.is_multiple_of(*factor)) {
        Some((name, factor)) => format!("{}{name}", ms / factor),
        None => format!("{ms}ms"),
    }
}

/// Splits a text into number and unit; one space is allowed between them.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, unit.strip_prefix(' ').unwrap_or(unit)))
}

/// Largest first, so that writing finds the largest possible unit.
const SIZES: &[(&str, u64)] = &[
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// In milliseconds, largest first.
const TIMES: &[(&str, u64)] = &[
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_have_their_two_largest_units() {
        for (seconds, wanted) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (125, "2 min 5 s"),
            (3_600, "1 h"),
            (3_605, "1 h"),
            (86_400, "1 day"),
            (604_774, "6 days 23 h"),
        ] {
            assert_eq!(rounded_duration(seconds), wanted);
        }
    }

    #[test]
    fn sizes_are_parsed() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("512", Some(512)),
            ("512B", Some(512)),
            ("1kB", Some(1_000)),
            ("1KiB", Some(1_024)),
            ("32MiB", Some(33_554_432)),
            ("32 MiB", Some(33_554_432)),
            ("2MB", Some(2_000_000)),
            ("1GiB", Some(1_073_741_824)),
            ("1GB", Some(1_000_000_000)),
            ("32M", None),
            ("32mib", None),
            ("MiB", None),
            ("", None),
            ("-1", None),
            ("1.5GiB", None),
            ("1  MiB", None),
            ("99999999999GiB", None),
            ("99999999999999999999999", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
    }

    #[test]
    fn durations_are_parsed() {
        for (text, ms) in [
            ("250ms", Some(250)),
            ("0s", Some(0)),
            ("30s", Some(30_000)),
            ("10m", Some(600_000)),
            ("2h", Some(7_200_000)),
            ("7d", Some(604_800_000)),
            ("30", None),
            ("1h30m", None),
            ("1w", None),
            ("s", None),
            ("999999999999999999d", None),
        ] {
            assert_eq!(
                parse_duration(text),
                ms.map(Duration::from_millis),
                "{text}"
            );
        }
    }

    #[test]
    fn the_largest_whole_unit_is_written() {
        assert_eq!(write_size(32 << 20), "32MiB");
        assert_eq!(write_size(1_500), "1500B");
        assert_eq!(write_size(0), "0B");
        assert_eq!(write_duration(Duration::from_secs(90)), "90s");
        assert_eq!(write_duration(Duration::from_secs(7_200)), "2h");
        assert_eq!(write_duration(Duration::ZERO), "0s");
    }

    proptest! {
        #[test]
        fn written_quantities_are_parsed_again(bytes: u64, ms in 0..u64::MAX / 2) {
            prop_assert_eq!(parse_size(&write_size(bytes)), Some(bytes));
            let time = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&write_duration(time)), Some(time));
        }

        #[test]
        fn any_text_is_parsed_or_rejected(text: String) {
            let _ = (parse_size(&text), parse_duration(&text));
        }
    }
}
