//! Orders that content has changed, in the words of the plugins that exist.
//!
//! Reads `PURGE` and `BAN` requests, `GET /purge/..`, orders in an upstream's answer, and URLs as people write them, into
//! [`Purge`]s with a normalised [`Scope`]. URLs are normalised by the functions that requests are normalised by, so an
//! order names exactly what is stored. Where an order is vague, it is read as the wider one: purging too much costs a
//! composition, purging too little shows what was to be gone. Who may order is decided by the caller.

mod answer;
mod api;
mod dialect;
mod dialect_request;
mod error;
mod path;
mod pattern;
mod said;
mod scope;
mod tag_list;
mod unsafe_method;

pub use self::answer::{PURGE_FIELDS, from_answer, receipts};
pub use self::dialect::{DIALECTS, Dialect, DialectReply, orders_from_request};
pub use self::error::{BadOrder, MAX_ORDERS, MAX_PATTERN_BYTES};
pub use self::path::is_below_purge;
pub use self::pattern::PurgePattern;
pub use self::scope::{Purge, Scope, Strength, prefix_scope, url_scope};
pub use self::unsafe_method::invalidation;
