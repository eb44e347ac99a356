//! The protocols to which connections may switch: `upgrade` of a site.

use crate::diagnostic::{Diagnostics, SourceSpan};
use crate::tree::SectionTable;

/// `upgrade` of a site. Reports protocols that would let requests bypass Galley.
pub(crate) fn protocols(options: &SectionTable, diagnostics: &mut Diagnostics) -> Vec<String> {
    let protocols: Vec<String> = options.value("upgrade");
    let positioned: Vec<(SourceSpan, String)> = options.get("upgrade").unwrap_or_default();
    for (position, name) in positioned {
        if let Some((why, help)) = obstacle(&name) {
            let message = format!("`site.upgrade` names `{name}`, {why}");
            diagnostics.add(&position, "site.upgrade", message, help);
        }
    }
    protocols
        .iter()
        .map(|name| name.to_ascii_lowercase())
        .collect()
}

/// Why connections may not switch to a protocol, and the remedy.
fn obstacle(protocol: &str) -> Option<(&'static str, &'static str)> {
    let lower = protocol.to_ascii_lowercase();
    if ["h2", "http", "tls"]
        .iter()
        .any(|known| lower.starts_with(known))
    {
        return Some((
            "which would carry requests to the upstream that Galley does not check",
            "remove it: only Galley speaks HTTP to the upstream",
        ));
    }
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(&byte);
    (!lower.bytes().all(is_token)).then_some((
        "which is not the name of a protocol",
        "write the name as in the `Upgrade` field: `websocket`",
    ))
}
