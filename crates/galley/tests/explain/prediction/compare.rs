//! A prediction and a response, in the same words.

use galley_testkit::client::Response;
use serde_json::Value;

/// What `Cache-Status` says, in the words of `galley why`: `hit`, `miss uri-miss`, `pass cookie`, `refused denied`.
pub fn observed(response: &Response) -> String {
    let members = response.cache_status();
    let parameter = |name: &str| {
        let mut all = members.split("; ");
        all.find_map(|one| one.strip_prefix(name)?.strip_prefix('='))
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

/// What `galley why` says.
pub fn predicted(why: &Value) -> String {
    let text = |name: &str| why["now"][name].as_str().unwrap_or_default().to_owned();
    format!("{} {}", text("what"), text("why"))
        .trim()
        .to_owned()
}

/// Whether the response is the predicted one.
///
/// RFC 9211 calls a purged copy stale. If the new response is not stored, `detail` says why not, so the header cannot say that a purge
/// was the reason of the miss; then the entry must have been purged. A stored error that the upstream repeats is a failure of the
/// upstream, which `why` cannot foresee: the stored one is sent again.
pub fn is_as_predicted(why: &Value, response: &Response) -> bool {
    let (wanted, came) = (predicted(why), observed(response));
    let is_purged =
        ["purged", "outdated"].contains(&why["entry"]["standing"].as_str().unwrap_or(""));
    let is_unsaid =
        wanted == "miss purged" && came == "miss stale" && !is_stored(response) && is_purged;
    let is_repeated =
        wanted == "miss stale" && came == "stale upstream-error" && response.status == 500;
    wanted == came || is_unsaid || is_repeated
}

fn is_stored(response: &Response) -> bool {
    response.cache_status().contains("; stored")
}
