//! What was learned about the query parameters of a site's pages, and what the owner may decide about them.

use galley_fetch::facets::{LearnedPath, ignorable};
use galley_request::{Exchange, Site};
use serde_json::{Value, json};

/// The facets of the path of a request; null without any.
pub(super) fn of_path(exchange: &Exchange<'_>) -> Value {
    let learned = exchange.site.core.counters.facets.learned();
    let path = String::from_utf8_lossy(exchange.info.decoded_path());
    let Some(found) = learned.iter().find(|one| one.path == path) else {
        return Value::Null;
    };
    let mut value = value(found);
    // Only what the address has, or the answer would be about another one.
    let proposed = ignorable(&learned);
    let is_own = |name: &str| found.parameters.iter().any(|one| one.name == name);
    let own = proposed.into_iter().filter(|(name, _)| is_own(name));
    value["proposal"] = proposal(&own.collect::<Vec<_>>());
    value
}

/// The facets of a site.
pub(crate) fn of_site(site: &Site) -> Value {
    let learned = site.core.counters.facets.learned();
    let shown = learned.iter().take(MAX_SHOWN).map(value);
    json!({ "paths": shown.collect::<Vec<_>>(), "proposal": proposal(&ignorable(&learned)) })
}

fn value(path: &LearnedPath) -> Value {
    let parameters = path.parameters.iter().map(|one| {
        json!({ "name": one.name, "values": one.values, "same": one.same, "different": one.different })
    });
    json!({
        "path": path.path, "combinations": path.combinations,
        "parameters": parameters.collect::<Vec<_>>(),
    })
}

/// The line of the configuration that ignores these parameters. Names consist of letters, digits, `_` and `-`.
fn proposal(ignorable: &[(&str, u32)]) -> Value {
    if ignorable.is_empty() {
        return Value::Null;
    }
    let names = ignorable.iter().map(|(name, _)| format!("\"{name}\""));
    let line = format!("ignore_query = [{}]", names.collect::<Vec<_>>().join(", "));
    let compared: u32 = ignorable
        .iter()
        .fold(0, |sum, (_, same)| sum.saturating_add(*same));
    json!({ "line": line, "compared": compared })
}

/// The maximum number of listed paths.
const MAX_SHOWN: usize = 10;
