//! The access control settings of the configuration.

use std::path::PathBuf;

use ipnet::IpNet;

use super::country::CountryCode;
use super::limit::RateLimit;
use crate::crawlers::{CrawlerRule, CrawlerTreatment};
use crate::outcome::words;

/// The access control settings of a site or a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRules {
    /// The allowed clients; not set: all.
    pub allow: AccessSetting<Vec<IpNet>>,
    /// The denied clients, even if `allow` names them.
    pub deny: AccessSetting<Vec<IpNet>>,
    /// The countries of the allowed clients; not set: all, including clients whose country is unknown.
    pub allow_countries: AccessSetting<Vec<CountryCode>>,
    /// The countries of the denied clients.
    pub deny_countries: AccessSetting<Vec<CountryCode>>,
    /// The request rate of each client.
    pub limit: AccessSetting<RateLimit>,
    /// The file with the names and passwords of the allowed users.
    pub password: AccessSetting<PathBuf>,
}

/// A setting of a site or a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AccessSetting<T> {
    /// Not set: a rule has the setting of its site.
    #[default]
    Nothing,
    /// Explicitly off, whatever the site sets.
    Off,
    /// This value.
    Is(T),
}

impl<T> AccessSetting<T> {
    /// The value, if there is one.
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Nothing | Self::Off => None,
        }
    }

    pub(super) fn is_silent(&self) -> bool {
        matches!(self, Self::Nothing)
    }
}

impl AccessRules {
    /// Whether no setting is set.
    pub fn is_silent(&self) -> bool {
        self.allow.is_silent()
            && self.deny.is_silent()
            && self.allow_countries.is_silent()
            && self.deny_countries.is_silent()
            && self.limit.is_silent()
            && self.password.is_silent()
    }

    /// Whether a setting depends on the client's country.
    pub fn names_countries(&self) -> bool {
        self.allow_countries.get().is_some() || self.deny_countries.get().is_some()
    }

    /// Whether access is restricted.
    pub fn closes(&self) -> bool {
        self.allow.get().is_some()
            || self.deny.get().is_some()
            || self.names_countries()
            || self.limit.get().is_some()
            || self.password.get().is_some()
    }
}

/// The access control of a site.
#[derive(Clone, Debug, Default)]
pub struct SiteAccess {
    /// The settings for all paths for which no rule sets them.
    pub common: AccessRules,
    /// The networks of administrators; empty: every client that can log in.
    pub admin_allow: Vec<IpNet>,
    /// How often each client may send a `POST` to `wp-login.php`.
    pub login_limit: Option<RateLimit>,
    /// How often each client may request `xmlrpc.php`.
    pub xmlrpc_limit: Option<RateLimit>,
    /// The available part of XML-RPC.
    pub xmlrpc: XmlRpc,
    /// What crawlers get, by name.
    pub crawlers: Vec<CrawlerRule>,
}

impl SiteAccess {
    /// Whether some crawlers are refused.
    pub fn refuses_crawlers(&self) -> bool {
        let mut rules = self.crawlers.iter();
        rules.any(|rule| rule.treatment == CrawlerTreatment::Refuse)
    }
}

words! {
    /// The available part of XML-RPC.
    XmlRpc {
        /// All methods.
        On = "on",
        /// All methods except `system.multicall` and `pingback.ping`.
        Limited = "limited",
        /// None: `xmlrpc.php` is denied.
        Off = "off",
    }
}

#[expect(
    clippy::derivable_impls,
    reason = "the macro that makes the words has no default"
)]
impl Default for XmlRpc {
    fn default() -> Self {
        Self::On
    }
}
