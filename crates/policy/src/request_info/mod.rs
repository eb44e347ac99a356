//! The parsed request head.
//!
//! [`RequestInfo::parse`] is the only code that interprets request heads, for every protocol: key, cacheability, conditions
//! and forwarding use its result. All bytes are in one buffer that the next request reuses, so parsing does not allocate
//! once the buffer is large enough. [`Cacheability`] states whether a request may use the cache; [`crate::decide`] decides
//! what the cache then does.

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
