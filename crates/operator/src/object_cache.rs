//! The lines of `galley status` about the object cache.

use serde_json::Value;

use crate::figures::{for_age, size};

/// The lines for a site whose WordPress uses the object cache, and for what works against it.
pub(crate) fn lines(site: &Value) -> Vec<String> {
    let (name, of) = (
        site["name"].as_str().unwrap_or_default(),
        &site["object_cache"],
    );
    let count = |word: &str| of[word].as_u64().unwrap_or(0);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let requests = count("requests");
    if requests == 0 {
        return Vec::new();
    }
    let hits = count("hits") + count("sent_ahead");
    let ratio = hits * 100 / (hits + count("misses")).max(1);
    let each = |word| tenths(count(word), requests);
    let mut lines = vec![format!(
        "objects   {name}: {ratio} % of the values found, {} round trips and {} queries a request, {} saved, {} values, {}",
        each("round_trips"),
        each("queries"),
        each("saved_queries"),
        count("entries"),
        size(&of["bytes"])
    )];
    let costs = of["groups"].as_array().into_iter().flatten().take(SHOWN);
    let costs = costs.map(|cost| {
        let (group, misses, changes) = (text(&cost["group"]), &cost["misses"], &cost["changes"]);
        format!("{group} ({misses} missing, {changes} changed)")
    });
    let costs: Vec<String> = costs.collect();
    lines.push(format!(
        "objects   {name}: most expensive: {}",
        costs.join(", ")
    ));
    for one in of["problems"].as_array().into_iter().flatten() {
        lines.push(format!(
            "objects   {name}: {}{}: {}",
            text(&one["problem"]),
            for_age(one["since_s"].as_u64()),
            text(&one["remedy"])
        ));
    }
    lines
}

/// A quotient with one decimal place.
fn tenths(count: u64, of: u64) -> String {
    let tenths = count * 10 / of;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Groups that are shown.
const SHOWN: usize = 3;
