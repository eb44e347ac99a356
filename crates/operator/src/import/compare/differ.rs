//! Compares the responses of both servers to one request. Pure.

use super::body;
use super::difference::{ComparedResponses, DifferenceKind};
use super::fields;
use super::seen::SeenResponse;
use super::visit::{TryVisit, VisitMethod};

/// Compares two responses. `ports`: the ports of the test, which visitors never see.
pub(super) fn differences(
    visit: &TryVisit,
    old: &SeenResponse,
    galley: &SeenResponse,
    ports: &[u16],
) -> ComparedResponses {
    let mut found = ComparedResponses::default();
    if old.status != galley.status {
        status(visit, old, galley, ports, &mut found);
        return found;
    }
    if let (None, None) = (old.status, galley.status) {
        return found;
    }
    if old.is_redirect() {
        let [was, is] = [old, galley].map(|seen| location(visit, seen, ports));
        if was != is {
            found.differs(DifferenceKind::Redirect, was, is);
        }
    }
    let own = body::OwnErrorPages::of(old, galley);
    fields::compare(old, galley, own, &mut found);
    if visit.method == VisitMethod::Head || old.is_redirect() || old.status == Some(304) {
        return found;
    }
    if let (Some(was), is) | (is, Some(was)) = (&old.trouble, &galley.trouble)
        && is.as_ref() != Some(was)
    {
        let text = |trouble: &Option<String>| trouble.clone().unwrap_or_else(|| "whole".to_owned());
        found.differs(
            DifferenceKind::Body,
            text(&old.trouble),
            text(&galley.trouble),
        );
    } else if own == body::OwnErrorPages::Both {
        found.is_harmless("each server's own error page");
    } else if !body::is_same(old, galley) {
        found.differs(
            DifferenceKind::Body,
            body::summary(old),
            body::summary(galley),
        );
    }
    found
}

fn status(
    visit: &TryVisit,
    old: &SeenResponse,
    galley: &SeenResponse,
    ports: &[u16],
    found: &mut ComparedResponses,
) {
    let statuses = [old.status_text(), galley.status_text()];
    let is_entry = |status: Option<u16>| matches!(status, Some(401 | 403));
    if old.status.is_none() && galley.is_refusal() {
        found.is_harmless("a refusal without a response, and one with a status");
        return;
    }
    let is_foreign = match (galley.status, &galley.trouble) {
        (Some(421), _) => true,
        // Without a certificate for the name, Galley ends the handshake.
        (None, Some(why)) => why.starts_with("TLS"),
        _ => false,
    };
    let is_to_tls = !visit.is_tls
        && old.is_redirect()
        && location(visit, old, ports).starts_with(&format!("https://{}/", visit.host));
    if (old.is_refusal() || is_to_tls) && is_foreign {
        found.is_harmless("hosts that no site has");
        return;
    }
    if let (Some(404), Some(403)) = (old.status, galley.status) {
        found.is_harmless("pages that do not exist, which Galley refuses by their names");
        return;
    }
    if let (Some(200), Some(206)) = (old.status, galley.status) {
        found.is_harmless("parts of pages, which Galley can send");
        return;
    }
    if is_same_redirect(visit, old, galley, ports) {
        found.is_harmless("redirects that differ only for requests with a body");
        return;
    }
    let kind = if old.is_redirect() && galley.is_redirect() {
        DifferenceKind::Redirect
    } else if is_entry(old.status) != is_entry(galley.status) {
        DifferenceKind::Entry
    } else if old.is_redirect() || galley.is_redirect() {
        DifferenceKind::Redirect
    } else {
        DifferenceKind::Status
    };
    let text = |seen: &SeenResponse, status: String| match &seen.trouble {
        Some(why) if seen.status.is_none() => format!("{status}: {why}"),
        _ if seen.is_redirect() => format!("{status} to {}", location(visit, seen, ports)),
        _ => status,
    };
    let [was, is] = statuses;
    found.differs(kind, text(old, was), text(galley, is));
}

/// Whether both redirect to the same URL, and both permanently or both temporarily.
fn is_same_redirect(
    visit: &TryVisit,
    old: &SeenResponse,
    galley: &SeenResponse,
    ports: &[u16],
) -> bool {
    old.is_redirect()
        && galley.is_redirect()
        && old.is_permanent_redirect() == galley.is_permanent_redirect()
        && location(visit, old, ports) == location(visit, galley, ports)
}

/// The URL to which a browser is redirected.
pub(super) fn location(visit: &TryVisit, seen: &SeenResponse, ports: &[u16]) -> String {
    let Some(text) = seen.field("location") else {
        return "no Location".to_owned();
    };
    if let Some(rest) = text.strip_prefix("//") {
        return format!("{}://{rest}", visit.scheme());
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
        let is_hidden = match port.parse::<u16>() {
            Ok(port) => ports.contains(&port) || port == if scheme == "https" { 443 } else { 80 },
            Err(_) => true,
        };
        let host = if is_hidden { host } else { authority };
        let path = if path.is_empty() { "/" } else { path };
        return format!("{scheme}://{host}{path}");
    }
    let base = format!("{}://{}", visit.scheme(), visit.host);
    if text.starts_with('/') {
        return base + &text;
    }
    let folder = visit
        .path()
        .rsplit_once('/')
        .map_or("", |(folder, _)| folder);
    format!("{base}{folder}/{text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::compare::seen::tests::seen;

    fn found(old: &SeenResponse, galley: &SeenResponse) -> Vec<String> {
        let visit = TryVisit::get("a.test", true, "/x/y");
        let found = differences(&visit, old, galley, &[1234]);
        let lines = found.differences.iter();
        lines
            .map(|one| format!("{}: {} -> {}", one.kind.title(), one.old, one.galley))
            .collect()
    }

    #[test]
    fn differences_in_access_and_redirects_are_found() {
        let to = |status, location: &'static str| seen(status, &[["location", location]], "");
        let rows = [
            (
                seen(200, &[], "a"),
                seen(403, &[], ""),
                "access: 200 -> 403",
            ),
            (
                seen(401, &[], ""),
                seen(200, &[], "a"),
                "access: 401 -> 200",
            ),
            (
                seen(200, &[], "a"),
                seen(404, &[], ""),
                "status: 200 -> 404",
            ),
            (
                to(301, "/b"),
                to(302, "/b"),
                "redirect: 301 to https://a.test/b -> 302 to https://a.test/b",
            ),
            (
                to(301, "/b"),
                to(301, "/c"),
                "redirect: https://a.test/b -> https://a.test/c",
            ),
            (
                to(301, "/b"),
                seen(200, &[], ""),
                "redirect: 301 to https://a.test/b -> 200",
            ),
        ];
        for (old, galley, wanted) in rows {
            assert_eq!(found(&old, &galley), [wanted]);
        }
        let same = [
            (to(301, "https://a.test:1234/x"), to(301, "/x")),
            (to(301, "z"), to(301, "https://a.test/x/z")),
            (to(301, "//b"), to(301, "https://b:443/")),
            (to(308, "/b"), to(301, "/b")),
            (to(302, "/b"), to(307, "/b")),
        ];
        for (old, galley) in same {
            let found = found(&old, &galley);
            assert!(
                found.is_empty() || found[0].contains("https://b ->"),
                "{found:?}"
            );
        }
        let closed = SeenResponse::none("closed".to_owned());
        assert!(found(&closed, &seen(421, &[], "")).is_empty());
        assert_eq!(
            found(&closed, &seen(200, &[], "")),
            ["status: no response: closed -> 200"]
        );
    }
}
