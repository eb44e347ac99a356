//! Redirects that the site's file asks for: to TLS, to the one host, and those of rules.
//!
//! Decided from a request alone, before anything stored is looked at: a stored page never carries the redirect of another
//! scheme or host, and no redirect made here is ever stored. A place to go to is a path of the same host, or an address
//! whose host the file names: what a client sends ends up in the path and the query only, escaped, so that neither a line
//! of the head nor another host can be made of it (CWE-601, CWE-113).
//!
//! WordPress redirects too (`redirect_canonical`), to the host and scheme of its own address. The two agree when the file
//! names the same, which the manual says; nothing here knows that address.

mod apply;
mod target;

pub use self::apply::{Redirection, may_apply, of};
pub use self::target::{Home, Redirect, RedirectTarget};

#[cfg(test)]
mod tests;
