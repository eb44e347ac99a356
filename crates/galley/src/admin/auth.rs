//! Who may order what.

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

use super::State;

/// What a request may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Every site.
    All,
    /// The site of this index.
    Site(usize),
    /// Nothing.
    None,
}

/// Judges by the bearer token, compared in constant time; a unix socket's peers need none.
pub(super) fn reach(state: &State, headers: &HeaderMap) -> Reach {
    let Some(given) = bearer(headers) else {
        return if state.trusted {
            Reach::All
        } else {
            Reach::None
        };
    };
    if state
        .token
        .as_deref()
        .is_some_and(|token| same(token, given))
    {
        return Reach::All;
    }
    let site = state.sites.iter().position(|site| {
        site.token
            .as_deref()
            .is_some_and(|token| same(token, given))
    });
    site.map_or(Reach::None, Reach::Site)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

fn same(a: &str, b: &str) -> bool {
    !a.is_empty() && a.as_bytes().ct_eq(b.as_bytes()).into()
}
