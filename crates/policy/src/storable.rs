//! Whether a response may be kept, for how long, and what of its head.
//!
//! RFC 9111 §3, narrowed by the promise that nothing personal is ever shared: only answers to trimmed requests, never
//! with a cookie that the site's file does not call harmless, never with `private`, `no-store` or `no-cache`, never
//! partial, never a redirect to itself. The WordPress preset keeps fewer statuses than the RFC permits; without a preset
//! any final status with an explicit lifetime is kept. Truth is in the response: no decision looks at a URL's ending.
//! Whether a body came whole is known by who received it; [`judge_body`] judges what it then looks like.

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

pub use self::body::{is_judged_whole, judge_body};
pub use self::explicit::{judge_part, judge_taught};
pub use self::fields::{
    add_confined, browser_fields, forwarded_fields, passed_fields, stored_fields,
};
pub use self::judge::{judge, judge_spread};
pub use self::redirect::{ReferenceUrl, resolve};
pub use self::response::{Lifetime, ResponseHead, Storability};
pub use self::rfc9111::{SharedWith, updated_fields};
