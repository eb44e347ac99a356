//! Whether a response is stored, for how long, and which of its fields.
//!
//! The rules are those of RFC 9111 section 3, narrowed by the promise that no personal data is shared: a response with a
//! cookie that the configuration does not declare harmless is never stored, nor one with `private` or `no-store`, nor a
//! redirect to itself. The policy defines which statuses are stored and how they are validated
//! ([`crate::site::StoragePolicy`]). No decision depends on the suffix of a URL. The caller knows whether a body is complete;
//! [`judge_body`] evaluates its content.

mod body;
mod error_page;
mod explicit;
mod fields;
mod judge;
mod lifetime;
mod litespeed;
mod redirect;
mod response;
mod rfc9111;

pub use self::body::{is_judged_whole, judge_body, judge_include};
pub use self::explicit::{judge_part, judge_taught};
pub use self::fields::{
    add_confined, browser_fields, forwarded_fields, outer_fields, passed_fields, stored_fields,
};
pub use self::judge::{judge, judge_spread};
pub use self::redirect::{ReferenceUrl, resolve};
pub use self::response::{Lifetime, ResponseHead, Storability};
pub use self::rfc9111::{SharedWith, updated_fields};
