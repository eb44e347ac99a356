//! Figures for people: ratios, sizes, durations.

use galley_config::rounded_size;
use serde_json::Value;

/// A ratio in percent; `-` if there were no requests.
pub(crate) fn percent(ratio: &Value) -> String {
    ratio
        .as_f64()
        .map_or_else(|| "-".to_owned(), |ratio| format!("{:.1}%", ratio * 100.0))
}

/// A number of bytes.
pub(crate) fn size(value: &Value) -> String {
    rounded_size(value.as_u64().unwrap_or(0))
}

/// A duration in its two largest units: `3 days 4 h`, `2 min 5 s`.
pub fn duration(seconds: u64) -> String {
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
    let all = [
        days,
        unit(hours, "h"),
        unit(minutes, "min"),
        unit(seconds % 60, "s"),
    ];
    let first = all.iter().position(|unit| !unit.is_empty());
    let two = first.and_then(|first| all.get(first..all.len().min(first + 2)));
    two.map_or_else(
        || "0 s".to_owned(),
        |two| two.join(" ").trim_end().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(duration(seconds), wanted);
        }
    }
}
