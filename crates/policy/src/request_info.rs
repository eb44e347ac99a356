//! What a request head says, read once.
//!
//! [`RequestInfo::gather`] is the only reader of request heads: key, gate, conditions and forwarding all work from its result,
//! so there is one opinion about a request whichever protocol and path brought it. All bytes lie in one buffer that is
//! used again for the next request: nothing is allocated once it is warm.
//! Decides whether the cache may be asked at all ([`Cacheability`]); what the cache then does is not decided here.

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
