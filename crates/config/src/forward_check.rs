//! Checks `purge_forward` of a site and the requirements of its caches.

use galley_policy::route::HostPattern;

use crate::check;
use crate::diagnostic::{Diagnostics, SourceSpan};
use crate::forward::{ForwardKind, PurgeForward};
use crate::tree::SectionTable;

/// The caches in `purge_forward`. Reports exposed tokens and unmet requirements.
pub(crate) fn read(
    options: &SectionTable,
    hosts: &[HostPattern],
    diagnostics: &mut Diagnostics,
) -> Vec<PurgeForward> {
    let positioned: Vec<(SourceSpan, PurgeForward)> = options.get(OPTION).unwrap_or_default();
    for (position, one) in &positioned {
        if let Some(file) = &one.token_file {
            check::token_at(options, OPTION, position, file, diagnostics);
        }
        if let Some((why, help)) = missing(options, hosts, one) {
            let option = options.path(OPTION);
            diagnostics.add(position, option.clone(), format!("`{option}` {why}"), help);
        }
    }
    positioned.into_iter().map(|(_, one)| one).collect()
}

/// The requirement of a cache that the site does not meet, and the remedy.
fn missing(
    options: &SectionTable,
    hosts: &[HostPattern],
    one: &PurgeForward,
) -> Option<(&'static str, &'static str)> {
    let is_name = |host: &HostPattern| matches!(host, HostPattern::Exact(_));
    let needs_names = matches!(one.kind, ForwardKind::Purge | ForwardKind::Ban);
    if needs_names && !hosts.iter().all(is_name) {
        let why = "has `purge` or `ban`, but these need the host of each page, and `hosts` has a wildcard";
        return Some((why, "list every host in `hosts`"));
    }
    if one.kind == ForwardKind::Galley && !hosts.iter().any(is_name) {
        let why =
            "has `galley`, but `hosts` has no name by which the other Galley would know the site";
        return Some((why, "add a host such as `\"example.com\"` to `hosts`"));
    }
    if one.by_tag && !options.has("tag_header") {
        let why =
            "has `by = \"tag\"`, but without `tag_header` the other cache does not know the tags";
        let help = "add `tag_header`: `\"Cache-Tag\"` for Cloudflare, `\"Surrogate-Key\"` for Fastly, `\"CDN-Tag\"` for Bunny";
        return Some((why, help));
    }
    if one.by_tag && options.value::<bool>("esi") {
        let why = "has `by = \"tag\"`, but other caches do not know the tags of what pages include with `esi`";
        return Some((why, "remove one of the two"));
    }
    None
}

const OPTION: &str = "purge_forward";
