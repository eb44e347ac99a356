//! The lines of `galley status` about the object cache.

use serde_json::Value;

use crate::figures::size;

/// The lines for a site whose WordPress uses the object cache, and for what works against it.
pub(crate) fn lines(site: &Value) -> Vec<String> {
    let (name, of) = (
        site["name"].as_str().unwrap_or_default(),
        &site["object_cache"],
    );
    let count = |word: &str| of[word].as_u64().unwrap_or(0);
    let requests = count("requests");
    if requests == 0 {
        return Vec::new();
    }
    let found = count("hits") + count("sent_ahead");
    let ratio = found * 100 / (found + count("misses")).max(1);
    let trips = count("round_trips") * 10 / requests;
    let mut lines = vec![format!(
        "objects   {name}: {ratio} % of the values found, {}.{} round trips a request, {} values, {}",
        trips / 10,
        trips % 10,
        count("entries"),
        size(&of["bytes"])
    )];
    if count("flushes") > 20 && count("flushes") * 20 > requests {
        lines.push(format!(
            "objects   {name}: emptied {} times in {requests} requests: a plugin calls `wp_cache_flush()`, or a process that writes cannot reach `objects.sock`",
            count("flushes")
        ));
    }
    if count("evictions") > requests {
        lines.push(format!(
            "objects   {name}: {} values made room for others: raise `object_cache`",
            count("evictions")
        ));
    }
    lines
}
