//! What a limit on clients means: `{ rate = "10/m", burst = 5 }`, or `"off"`.

use galley_policy::access::{AccessSetting, RateLimit};
use toml::de::{DeTable, DeValue};

use crate::reader::{Problem, problem};

/// A text; nothing but `off` is meant.
pub(crate) fn of_text(text: &str) -> Result<AccessSetting<RateLimit>, Problem> {
    match text {
        "off" => Ok(AccessSetting::Off),
        _ => problem("which is not a limit", FORM),
    }
}

/// A table with `rate`, and perhaps `burst`, which else is the rate's own number.
pub(crate) fn of_table(table: &DeTable<'_>) -> Result<AccessSetting<RateLimit>, Problem> {
    let (mut rate, mut burst) = (None, None);
    for (key, value) in table {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("rate", DeValue::String(text)) => rate = RateLimit::parse_rate(text),
            ("burst", DeValue::Integer(number)) => {
                burst = u64::from_str_radix(number.as_str(), number.radix()).ok();
                if burst.is_none() {
                    return problem("whose `burst` is not a number of requests", FORM);
                }
            }
            ("rate" | "burst", _) => {
                return problem("whose `rate` or `burst` has the wrong type", FORM);
            }
            _ => return problem("which has other keys than `rate` and `burst`", FORM),
        }
    }
    let Some((count, per_s)) = rate else {
        return problem("which has no valid `rate`", FORM);
    };
    let limit = RateLimit::new(count, per_s, burst.unwrap_or(count));
    match limit {
        Some(limit) => Ok(AccessSetting::Is(limit)),
        None => problem(
            "whose numbers are out of bounds",
            "give a rate from `\"1/d\"` to `\"1000/s\"`, and a burst of at least 1 that refills within a year",
        ),
    }
}

const FORM: &str = "write `{ rate = \"10/m\", burst = 5 }`, per `s`, `m`, `h` or `d`; or `\"off\"`";
