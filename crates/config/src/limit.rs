//! A rate limit for clients: `{ rate = "10/m", burst = 5 }`, or `"off"`.

use galley_policy::access::{AccessSetting, RateLimit};
use toml::de::{DeTable, DeValue};

use crate::reader::{Problem, problem};

/// Reads a limit from a string, which must be `off`.
pub(crate) fn of_text(text: &str) -> Result<AccessSetting<RateLimit>, Problem> {
    match text {
        "off" => Ok(AccessSetting::Off),
        _ => problem("which is not a limit", FORM),
    }
}

/// Reads a limit from a table with `rate`, optional `burst` (default: the number of `rate`) and optional `shared`.
pub(crate) fn of_table(table: &DeTable<'_>) -> Result<AccessSetting<RateLimit>, Problem> {
    let (mut rate, mut burst, mut is_shared) = (None, None, false);
    for (key, value) in table {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("rate", DeValue::String(text)) => rate = RateLimit::parse_rate(text),
            ("burst", DeValue::Integer(number)) => {
                burst = u64::from_str_radix(number.as_str(), number.radix()).ok();
                if burst.is_none() {
                    return problem("whose `burst` is not a number of requests", FORM);
                }
            }
            ("shared", DeValue::Boolean(shared)) => is_shared = *shared,
            ("rate" | "burst" | "shared", _) => {
                return problem("whose `rate`, `burst` or `shared` has the wrong type", FORM);
            }
            _ => {
                return problem(
                    "which has other keys than `rate`, `burst` and `shared`",
                    FORM,
                );
            }
        }
    }
    let Some((count, per_s)) = rate else {
        return problem("which has no valid `rate`", FORM);
    };
    let limit = RateLimit::new(count, per_s, burst.unwrap_or(count));
    match limit {
        Some(limit) if is_shared => Ok(AccessSetting::Is(limit.shared())),
        Some(limit) => Ok(AccessSetting::Is(limit)),
        None => problem(
            "whose numbers are out of bounds",
            "give a rate from `\"1/d\"` to `\"1000/s\"`, and a burst of at least 1 that refills within a year",
        ),
    }
}

const FORM: &str = "write `{ rate = \"10/m\", burst = 5 }`, per `s`, `m`, `h` or `d`, with `shared = true` to count over a cluster; or `\"off\"`";
