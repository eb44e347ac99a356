//! What a site's file says about caching, in the form that decisions read.
//!
//! The configuration builds one [`SiteRules`] per site; it is immutable afterwards and shared by all cores. Lists hold
//! only what the file adds: what the preset brings is in [`crate::wordpress`].

mod names;
mod rule;
mod settings;
mod ttl;

pub use self::names::NamePattern;
pub use self::rule::{Ignore, Rule, UpstreamTimeouts};
pub use self::settings::{Preset, SiteRules};
pub use self::ttl::TtlTable;
