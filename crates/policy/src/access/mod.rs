//! Access control: networks, countries, passwords, rate limits, and the parts of WordPress for administrators.
//!
//! [`judge()`] uses the request head only, before any lookup. It denies the request, or returns the conditions that the
//! request must still meet: a token of a bucket, a password, a check of its body. The server stores buckets and passwords.
//! Each setting of a rule overrides the same setting of the site.

mod admin;
mod authors;
mod country;
mod judge;
mod limit;
pub mod passwords;
mod settings;
pub mod xmlrpc;

pub(crate) use self::admin::is_login;
pub use self::admin::{Audience, area, is_visitors_form};
pub use self::authors::{form, requests_user_names};
pub use self::country::{AccessClient, CountryCode};
pub use self::judge::{
    AccessConditions, BodyCheck, Bucket, By, DenialReason, depends_on_client, is_restricted, judge,
};
pub use self::limit::{RateLimit, TICKS_PER_S, TokenResult};
pub use self::settings::{AccessRules, AccessSetting, SiteAccess, XmlRpc};

#[cfg(test)]
mod tests;
