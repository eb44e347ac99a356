//! Redirects of the site's configuration: to TLS, to the canonical host, and those of rules.
//!
//! They depend on the request alone, before any lookup: a stored page never carries the redirect of another scheme or host,
//! and none of these redirects is stored. A target is a path of the same host, or an address whose host the configuration
//! names: what a client sends gets into the path and the query only, escaped, so that it can form neither a line of the
//! head nor another host (CWE-601, CWE-113).
//!
//! WordPress redirects too (`redirect_canonical`), to the host and scheme of its own address. The two agree if the
//! configuration names the same, as the manual says; this module does not know that address.

mod apply;
mod target;

pub use self::apply::{Redirection, may_apply, of};
pub use self::target::{Home, Redirect, RedirectTarget};

#[cfg(test)]
mod tests;
