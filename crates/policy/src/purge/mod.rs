//! Parsing of purges, as plugins and upstreams send them.
//!
//! `PURGE` and `BAN` requests, `GET /purge/..`, response fields, and URLs as users write them become [`Purge`]s with a
//! normalized [`Scope`]. URLs are normalized like those of requests, so that a purge names exactly the stored response. An
//! ambiguous purge is read as the wider one: purging too much costs a fetch, purging too little shows outdated content. The
//! caller decides about the permission to purge.

mod api;
mod dialect;
mod dialect_request;
mod error;
mod label;
mod nginx_key;
mod path;
mod pattern;
mod purge_fields;
mod response;
mod scope;
mod tag_list;
mod unsafe_method;

pub use self::dialect::{DIALECTS, Dialect, DialectReply};
pub use self::error::{MAX_PATTERN_BYTES, MAX_PATTERNS, MAX_PURGES, MAX_URL_BYTES, PurgeError};
pub use self::label::{PurgeLabel, label};
pub use self::nginx_key::{nginx_key_url, nginx_keys};
pub use self::path::is_below_purge;
pub use self::pattern::{CompiledPattern, PurgePattern};
pub use self::response::{PURGE_FIELDS, from_response, receipts};
pub use self::scope::{Purge, Scope, Strength, prefix_scope, tag_scope, url_scope};
pub use self::unsafe_method::invalidation;
