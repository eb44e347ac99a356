//! The policy of a site, in the form that decisions use.
//!
//! The configuration builds one [`Policy`] per site, which is immutable afterwards and shared by all cores. Its lists contain
//! only the additions of the configuration: [`crate::wordpress`] has the defaults for WordPress.

mod flags;
mod key_shape;
mod names;
mod policy;
mod preset;
mod rule;
mod ttl;

pub use self::flags::SiteFlags;
pub use self::key_shape::KeyShape;
pub use self::names::NamePattern;
pub use self::policy::{AltSvc, EsiPolicy, MemberPages, Policy, Preset};
pub use self::preset::{
    AddressedFields, AuthorizationPolicy, EqualSpellings, ParameterOrder, PartialRequests,
    RequestDirectives, RequestPolicy, StaleOnStatus, StorableStatuses, StoragePolicy,
    UnnamedCookies, UnsafeMethodPurges, UpstreamRequests, UrlPolicy, ValidationPolicy, VaryPolicy,
};
pub use self::rule::{IgnoredParts, Rule, UpstreamTimeouts};
pub use self::ttl::TtlTable;
