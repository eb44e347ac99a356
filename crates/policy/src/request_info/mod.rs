//! The parsed request head.
//!
//! [`RequestInfo::parse`] is the only parser of the meaning of request heads, for every protocol: key, cacheability,
//! conditions and forwarding use its result. All bytes are in one buffer that the next request reuses, so nothing is
//! allocated once it is warm. [`Cacheability`] says whether a request may use the cache; [`crate::decide`] decides what the
//! cache then does.

mod accept;
mod cacheability;
mod directives;
mod info;
mod kinds;
mod parse;

pub use directives::Directives;
pub use info::{RequestInfo, RequestLineInfo};
pub use kinds::{AcceptClass, Cacheability, Device, Method, Scheme};

#[cfg(test)]
mod tests;
