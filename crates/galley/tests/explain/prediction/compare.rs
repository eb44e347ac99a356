//! Compares a prediction of `galley why` with a response.

use galley_testkit::client::Response;
use serde_json::Value;

/// The outcome in `Cache-Status`, in the words of `galley why`: `hit`, `miss uri-miss`, `pass cookie`, `refused denied`.
pub fn observed(response: &Response) -> String {
    let members = response.cache_status();
    let parameter = |name: &str| {
        let mut all = members.split("; ");
        all.find_map(|parameter| parameter.strip_prefix(name)?.strip_prefix('='))
    };
    let detail = parameter("detail").unwrap_or_default();
    match parameter("fwd") {
        Some(why @ ("uri-miss" | "stale")) => {
            let is_purged = why == "stale" && detail == "purged" && is_stored(response);
            format!("miss {}", if is_purged { "purged" } else { why })
        }
        Some(_) => format!("pass {detail}"),
        None if members.contains("; hit") => match detail {
            "" => "hit".to_owned(),
            "patched" | "esi" => format!("hit {detail}"),
            detail => format!("stale {detail}"),
        },
        None if ["file", "redirect", "purge"].contains(&detail) => detail.to_owned(),
        None => format!("refused {detail}"),
    }
}

/// The outcome that `galley why` predicts.
pub fn predicted(why: &Value) -> String {
    let text = |name: &str| why["now"][name].as_str().unwrap_or_default().to_owned();
    format!("{} {}", text("what"), text("why"))
        .trim()
        .to_owned()
}

/// Whether the response has the predicted outcome.
///
/// RFC 9211 calls a purged response stale. If the new response is not stored, `detail` contains the reason for that, so the header cannot
/// name a purge as the reason for the miss; then the entry must have been purged. If the upstream repeats a stored error, Galley sends the
/// stored error again; `why` cannot foresee the error.
pub fn is_as_predicted(why: &Value, response: &Response) -> bool {
    let (expected, actual) = (predicted(why), observed(response));
    let is_purged =
        ["purged", "outdated"].contains(&why["entry"]["validity"].as_str().unwrap_or(""));
    let is_unreported_purge =
        expected == "miss purged" && actual == "miss stale" && !is_stored(response) && is_purged;
    let is_repeated_error =
        expected == "miss stale" && actual == "stale upstream-error" && response.status == 500;
    expected == actual || is_unreported_purge || is_repeated_error
}

fn is_stored(response: &Response) -> bool {
    response.cache_status().contains("; stored")
}
