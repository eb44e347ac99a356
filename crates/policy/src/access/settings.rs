//! The access control settings of the configuration.

use std::path::PathBuf;

use ipnet::IpNet;

use super::country::CountryCode;
use super::limit::RateLimit;
use crate::outcome::words;

/// What a site or one of its rules says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRules {
    /// The allowed clients; by default everybody.
    pub allow: AccessSetting<Vec<IpNet>>,
    /// The denied clients, even if `allow` names them.
    pub deny: AccessSetting<Vec<IpNet>>,
    /// The countries from which clients may ask; nothing said: all, and clients without one.
    pub allow_countries: AccessSetting<Vec<CountryCode>>,
    /// Those from which they may not.
    pub deny_countries: AccessSetting<Vec<CountryCode>>,
    /// How often one client may ask.
    pub limit: AccessSetting<RateLimit>,
    /// The file with the names and passwords of the allowed users.
    pub password: AccessSetting<PathBuf>,
}

/// A setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AccessSetting<T> {
    /// Nothing: as around it.
    #[default]
    Nothing,
    /// The explicit absence of a setting, whatever the site sets.
    Off,
    /// This.
    Is(T),
}

impl<T> AccessSetting<T> {
    /// What is, if anything.
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
    /// Whether nothing is said.
    pub fn is_silent(&self) -> bool {
        self.allow.is_silent()
            && self.deny.is_silent()
            && self.allow_countries.is_silent()
            && self.deny_countries.is_silent()
            && self.limit.is_silent()
            && self.password.is_silent()
    }

    /// Whether the country of a client matters.
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

/// What a site says beside that.
#[derive(Clone, Debug, Default)]
pub struct SiteAccess {
    /// For all paths for which no rule says otherwise.
    pub common: AccessRules,
    /// Clients that may administer; empty: everybody who can log in.
    pub admin_allow: Vec<IpNet>,
    /// How often one client may send something to `wp-login.php`.
    pub login_limit: Option<RateLimit>,
    /// How often one client may ask `xmlrpc.php`.
    pub xmlrpc_limit: Option<RateLimit>,
    /// What of XML-RPC there is.
    pub xmlrpc: XmlRpc,
    /// Whether names of users are not told to strangers.
    pub hide_authors: bool,
    /// Whether PHP gets the name and password that a request was let in with.
    pub forwards_password: bool,
}

words! {
    /// What of XML-RPC there is.
    XmlRpc {
        /// All of it.
        On = "on",
        /// All but `system.multicall` and `pingback.ping`.
        Limited = "limited",
        /// Nothing.
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
