//! Who may ask for what: networks, passwords, limits, and what WordPress shows to administrators alone.
//!
//! [`judge`] is asked before the cache, a file or PHP is, with the head alone. It refuses, or says what is still demanded: a
//! token of a bucket, a password, a look at the body. It keeps no state: buckets and passwords are the server's.
//! A site says what holds everywhere; a rule's own word stands in its place, each of the four by itself.

mod admin;
mod authors;
mod judge;
mod limit;
pub mod passwords;
mod settings;
pub mod xmlrpc;

pub use self::admin::{Area, area, is_visitors_form};
pub use self::authors::{asks_in_head, form};
pub use self::judge::{Barred, BodyCheck, Bucket, By, Demands, judge};
pub use self::limit::{RateLimit, TICKS_PER_S, Taken};
pub use self::settings::{AccessRules, AccessSetting, SiteAccess, XmlRpc};

#[cfg(test)]
mod tests;
