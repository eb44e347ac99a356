//! Redirects of the site's configuration: to TLS, to the canonical host, and those of rules.
//!
//! Redirects depend on the request only, and are decided before any lookup: a stored page is never sent where another scheme or
//! host requires a redirect, and none of these redirects is stored. A target is a path of the same host, or a URL whose host
//! the configuration names. Data from the client is inserted into the path and the query only, escaped, so that it can form
//! neither a line of the head nor another host (CWE-601, CWE-113).
//!
//! WordPress redirects too (`redirect_canonical`), to the host and scheme of its own address. The two agree if the
//! configuration names the same address, as the manual says; this module does not know the address of WordPress.

mod apply;
mod target;

pub use self::apply::{Redirection, may_apply, of};
pub use self::target::{CanonicalAddress, Redirect, RedirectTarget};

#[cfg(test)]
mod tests;
