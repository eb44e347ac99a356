//! Compares bodies: parts that change with each response are masked, and the servers' built-in error pages count as equal.

use std::collections::HashSet;

use galley_policy::wordpress::masked;

use super::seen::SeenResponse;

/// Whether the responses are built-in error pages of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnErrorPages {
    /// At least one is not.
    No,
    Both,
}

impl OwnErrorPages {
    pub(super) fn of(old: &SeenResponse, galley: &SeenResponse) -> Self {
        let is_error = old.status.is_some_and(|status| status >= 400);
        let text = String::from_utf8_lossy(&old.body);
        let is_old = text.is_empty() || BUILT_IN_TEXTS.iter().any(|words| text.contains(words));
        if is_error && is_old && is_of_galley(galley) {
            Self::Both
        } else {
            Self::No
        }
    }
}

fn is_of_galley(seen: &SeenResponse) -> bool {
    let text = String::from_utf8_lossy(&seen.body);
    let status = seen.status.unwrap_or_default();
    text.is_empty() || text.contains(&format!("<small>{status} · "))
}

/// Whether both bodies are equal for a reader.
pub(super) fn is_same(old: &SeenResponse, galley: &SeenResponse) -> bool {
    old.body == galley.body || text(old) == text(galley)
}

/// Whether Galley's body contains all lines that the old server sends each time, and no additional ones. `again`: a second response
/// of the old server.
pub(super) fn is_same_but_for_changes(
    old: &SeenResponse,
    again: &SeenResponse,
    galley: &SeenResponse,
) -> bool {
    let [old, again, galley] = [old, again, galley].map(text);
    if old == again {
        return false;
    }
    let [first, second, galley]: [HashSet<&str>; 3] =
        [&old, &again, &galley].map(|text| text.lines().collect());
    let is_stable = |line: &&&str| second.contains(**line);
    let changing = first.len() - first.iter().filter(is_stable).count();
    let missing = first
        .iter()
        .filter(is_stable)
        .filter(|line| !galley.contains(**line))
        .count();
    let added = galley.iter().filter(|line| !first.contains(**line)).count();
    missing == 0 && added <= changing
}

fn text(seen: &SeenResponse) -> String {
    masked(&String::from_utf8_lossy(&seen.body))
}

/// A short description of a body.
pub(super) fn summary(seen: &SeenResponse) -> String {
    let text = String::from_utf8_lossy(&seen.body);
    let title = text
        .split_once("<title>")
        .and_then(|(_, rest)| rest.split_once("</title>"));
    match title {
        Some((title, _)) => {
            let title: String = title
                .chars()
                .filter(|c| !c.is_control())
                .take(MAX_TITLE)
                .collect();
            format!("{} bytes, `{title}`", seen.body.len())
        }
        None => format!("{} bytes", seen.body.len()),
    }
}

/// Texts in the built-in error pages of nginx, Apache and Varnish.
const BUILT_IN_TEXTS: &[&str] = &[
    "<center>nginx",
    "<center>openresty",
    "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">",
    "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">",
    "<p>Varnish cache server</p>",
];

const MAX_TITLE: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::compare::seen::tests::seen;

    #[test]
    fn changing_pages_are_compared_by_their_stable_lines() {
        let page = |text: &'static str| seen(200, &[], text);
        let (old, again) = (page("a\ntime 1\nb"), page("a\ntime 2\nb"));
        assert!(is_same_but_for_changes(&old, &again, &page("a\ntime 3\nb")));
        assert!(!is_same_but_for_changes(&old, &again, &page("a\ntime 3")));
        assert!(!is_same_but_for_changes(
            &old,
            &again,
            &page("a\ntime 3\nb\nmore")
        ));
        assert!(!is_same_but_for_changes(&old, &old, &page("c")));
        let nonce = |text: &'static str| page(text);
        assert!(is_same(
            &nonce("{\"nonce\":\"abcdef0123\"}"),
            &nonce("{\"nonce\":\"0123abcdef\"}")
        ));
    }

    #[test]
    fn built_in_error_pages_count_as_equal() {
        let nginx = seen(404, &[], "<hr><center>nginx</center>");
        let galley = seen(404, &[], "<small>404 · 1-2</small>");
        assert_eq!(OwnErrorPages::of(&nginx, &galley), OwnErrorPages::Both);
        assert_eq!(
            OwnErrorPages::of(&nginx, &seen(404, &[], "mine")),
            OwnErrorPages::No
        );
        assert_eq!(
            OwnErrorPages::of(&seen(404, &[], "mine"), &galley),
            OwnErrorPages::No
        );
        assert_eq!(
            summary(&seen(200, &[], "<title>A</title>")),
            "16 bytes, `A`"
        );
    }
}
