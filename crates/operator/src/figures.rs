//! Figures for people: ratios, sizes, durations.

pub use galley_config::rounded_duration as duration;
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

/// How long a problem lasts, after its text; empty if that is unknown.
pub fn for_age(seconds: Option<u64>) -> String {
    seconds.map_or_else(String::new, |seconds| {
        format!(" (for {})", duration(seconds))
    })
}
