//! Access control for one request.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;

use super::admin::{self, Audience, area};
use super::authors::{self, requests_user_names};
use super::country::{AccessClient, CountryCode};
use super::limit::RateLimit;
use super::settings::{AccessRules, AccessSetting, XmlRpc};
use super::xmlrpc;
use crate::crawlers::{CrawlerTreatment, rule_of};
use crate::outcome::RefusedWhy;
use crate::request_info::{Method, RequestInfo};
use crate::site::Policy;

impl Policy {
    /// Whether a `GET` is never denied: hits of such a site need no check.
    pub fn is_open(&self) -> bool {
        self.access.common.is_silent()
            && self.access.admin_allow.is_empty()
            && !self.flags.hide_authors
            && !self.access.refuses_crawlers()
            && self.rules.iter().all(|rule| rule.access.is_silent())
    }

    /// Whether any setting depends on the client's country.
    pub fn names_countries(&self) -> bool {
        let mut rules = self.rules.iter();
        self.access.common.names_countries()
            || rules.any(|rule| !rule.countries.is_empty() || rule.access.names_countries())
    }

    /// Whether a rule restricts access for clients of some countries only.
    pub(crate) fn hides_by_country(&self) -> bool {
        let hides = |access: &AccessRules| {
            access.allow.get().is_some()
                || access.deny.get().is_some()
                || access.names_countries()
                || access.password.get().is_some()
        };
        let mut rules = self.rules.iter();
        rules.any(|rule| !rule.countries.is_empty() && hides(&rule.access))
    }

    /// The password files, by the setting that names them.
    pub fn password_files(&self) -> impl Iterator<Item = (By, &Path)> {
        let rules = self.rules.iter().map(|rule| &rule.access);
        let of_rules = (0..).map(By::Rule).zip(rules);
        let access_rules = std::iter::once((By::Site, &self.access.common)).chain(of_rules);
        access_rules.filter_map(|(by, access)| Some((by, access.password.get()?.as_path())))
    }
}

/// The source of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// The site.
    Site,
    /// The site's rule with this index.
    Rule(usize),
}

impl Display for By {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Site => f.write_str("the site"),
            Self::Rule(index) => write!(f, "rule {} of the site", index + 1),
        }
    }
}

/// Why a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialReason {
    /// `deny` names the client.
    Denied(By),
    /// `allow` does not name the client.
    NotAllowed(By),
    /// `deny_countries` names the country of the client.
    CountryDenied(By),
    /// `allow_countries` does not name the country of the client.
    CountryNotAllowed(By),
    /// The request is for administrators, and `admin_allow` does not name the client.
    NotAdmin,
    /// XML-RPC is off.
    XmlRpc,
    /// The request is for names of users.
    Authors,
    /// `crawler_rules` refuses the crawler that the `User-Agent` names.
    Crawler,
}

/// The option that denies.
impl Display for DenialReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(by) => write!(f, "`deny` of {by}"),
            Self::NotAllowed(by) => write!(f, "`allow` of {by}"),
            Self::CountryDenied(by) => write!(f, "`deny_countries` of {by}"),
            Self::CountryNotAllowed(by) => write!(f, "`allow_countries` of {by}"),
            Self::NotAdmin => f.write_str("`admin_allow`"),
            Self::XmlRpc => f.write_str("`xmlrpc`"),
            Self::Authors => f.write_str("`hide_authors`"),
            Self::Crawler => f.write_str("`crawler_rules`"),
        }
    }
}

impl DenialReason {
    /// The status that the rule of the denial names, in place of that of [`DenialReason::why`].
    pub fn status(self, policy: &Policy) -> Option<u16> {
        match self {
            Self::Denied(By::Rule(index))
            | Self::NotAllowed(By::Rule(index))
            | Self::CountryDenied(By::Rule(index))
            | Self::CountryNotAllowed(By::Rule(index)) => policy.rules.get(index)?.deny_status,
            Self::Denied(By::Site)
            | Self::NotAllowed(By::Site)
            | Self::CountryDenied(By::Site)
            | Self::CountryNotAllowed(By::Site)
            | Self::NotAdmin
            | Self::XmlRpc
            | Self::Authors
            | Self::Crawler => None,
        }
    }

    /// The reason in the words of the log and the header.
    pub const fn why(self) -> RefusedWhy {
        match self {
            Self::Denied(_)
            | Self::NotAllowed(_)
            | Self::CountryDenied(_)
            | Self::CountryNotAllowed(_) => RefusedWhy::Network,
            Self::NotAdmin => RefusedWhy::Admin,
            Self::XmlRpc => RefusedWhy::XmlRpc,
            Self::Authors => RefusedWhy::Authors,
            Self::Crawler => RefusedWhy::Crawler,
        }
    }
}

/// The conditions that a request must still meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessConditions<'s> {
    /// The buckets from which it needs a token each.
    pub limits: Vec<(Bucket, &'s RateLimit)>,
    /// The password files for each of which it needs a name and a password.
    pub passwords: Vec<By>,
    /// A check of the body.
    pub body: Option<BodyCheck>,
    /// Whether its body must not select a page ([`crate::spellings`]).
    pub form: bool,
}

impl AccessConditions<'_> {
    /// Whether there are no conditions.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A kind of token bucket. Each client has one bucket of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bucket {
    /// The limit of a site or a rule.
    Of(By),
    /// `POST` requests to `wp-login.php`.
    Login,
    /// Requests for `xmlrpc.php`.
    XmlRpc,
    /// Passwords that must be compared.
    Password,
    /// Logins to the dashboard of the site.
    Dashboard,
}

/// The option that limits.
impl Display for Bucket {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(by) => write!(f, "`limit` of {by}"),
            Self::Login => f.write_str("`login_limit`"),
            Self::XmlRpc => f.write_str("`xmlrpc_limit`"),
            Self::Password => f.write_str("`basic_auth`"),
            Self::Dashboard => f.write_str("`dashboard_auth`"),
        }
    }
}

impl Bucket {
    /// A number that identifies the bucket on every node of a cluster.
    pub fn code(self) -> u64 {
        match self {
            Self::Of(By::Site) => 0,
            Self::Login => 1,
            Self::XmlRpc => 2,
            Self::Password => 3,
            // Never shared between nodes, so the value may collide there.
            Self::Dashboard => u64::MAX,
            Self::Of(By::Rule(index)) => u64::try_from(index).unwrap_or(u64::MAX).saturating_add(4),
        }
    }
}

/// A check of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyCheck {
    /// Whether it calls a denied XML-RPC method.
    XmlRpc,
    /// Whether it turns a visitor's form into one for administrators.
    VisitorsForm,
    /// Whether it requests names of users.
    Authors,
}

/// Denies a request, or returns the conditions that it must still meet. Does not allocate for requests without conditions,
/// which take the fast path.
pub fn judge<'s>(
    policy: &'s Policy,
    info: &RequestInfo,
    client: AccessClient,
) -> Result<AccessConditions<'s>, DenialReason> {
    let address = client.address.to_canonical();
    let access = &policy.access;
    networks(policy, info, address)?;
    countries(policy, info, client.country)?;
    if refuses_crawler(policy, info) {
        return Err(DenialReason::Crawler);
    }
    let area = area(info);
    let is_outside_admin_networks =
        !access.admin_allow.is_empty() && !names(&access.admin_allow, address);
    if is_outside_admin_networks && area == Audience::Admins {
        return Err(DenialReason::NotAdmin);
    }
    let is_wordpress = policy.urls.has_wordpress_paths;
    let is_xmlrpc = is_wordpress && xmlrpc::is_meant(info);
    if is_xmlrpc && access.xmlrpc == XmlRpc::Off {
        return Err(DenialReason::XmlRpc);
    }
    if policy.flags.hide_authors && requests_user_names(info) {
        return Err(DenialReason::Authors);
    }
    let is_post = info.method() == Method::Post;
    let special = if is_xmlrpc {
        access
            .xmlrpc_limit
            .as_ref()
            .map(|limit| (Bucket::XmlRpc, limit))
    } else if is_wordpress && is_post && admin::is_login(info) {
        access
            .login_limit
            .as_ref()
            .map(|limit| (Bucket::Login, limit))
    } else {
        None
    };
    let body = if is_xmlrpc && is_post && access.xmlrpc == XmlRpc::Limited {
        Some(BodyCheck::XmlRpc)
    } else if is_outside_admin_networks && is_post && area == Audience::VisitorsForm {
        Some(BodyCheck::VisitorsForm)
    } else if policy.flags.hide_authors && authors::may_request_in_body(info) {
        Some(BodyCheck::Authors)
    } else {
        None
    };
    let mut conditions = AccessConditions {
        limits: Vec::new(),
        passwords: Vec::new(),
        body,
        form: is_post && policy.guard.checks_form(info.decoded_path()),
    };
    for rule in info.guarding() {
        let limit = setting(policy, rule, |access| &access.limit);
        let limit = limit.map(|(by, limit)| (Bucket::Of(by), limit));
        let password = setting(policy, rule, |access| &access.password);
        conditions
            .limits
            .extend(limit.filter(|one| !conditions.limits.contains(one)));
        let by = password.map(|(by, _)| by);
        conditions
            .passwords
            .extend(by.filter(|one| !conditions.passwords.contains(one)));
    }
    conditions.limits.extend(special);
    Ok(conditions)
}

/// Whether access depends on the address or country of the client.
pub fn depends_on_client(policy: &Policy, info: &RequestInfo) -> bool {
    info.guarding().any(|rule| {
        setting(policy, rule, |access| &access.deny).is_some()
            || setting(policy, rule, |access| &access.allow).is_some()
            || setting(policy, rule, |access| &access.deny_countries).is_some()
            || setting(policy, rule, |access| &access.allow_countries).is_some()
    })
}

/// Whether some clients are denied access, or need a password.
pub fn is_restricted(policy: &Policy, info: &RequestInfo) -> bool {
    let mut guarding = info.guarding();
    depends_on_client(policy, info)
        || guarding.any(|rule| setting(policy, rule, |access| &access.password).is_some())
}

fn networks(policy: &Policy, info: &RequestInfo, client: IpAddr) -> Result<(), DenialReason> {
    for rule in info.guarding() {
        if let Some((by, deny)) = setting(policy, rule, |access| &access.deny)
            && names(deny, client)
        {
            return Err(DenialReason::Denied(by));
        }
        if let Some((by, allow)) = setting(policy, rule, |access| &access.allow)
            && !names(allow, client)
        {
            return Err(DenialReason::NotAllowed(by));
        }
    }
    Ok(())
}

fn countries(
    policy: &Policy,
    info: &RequestInfo,
    country: Option<CountryCode>,
) -> Result<(), DenialReason> {
    let is_in = |list: &[CountryCode]| country.is_some_and(|country| list.contains(&country));
    for rule in info.guarding() {
        if let Some((by, deny)) = setting(policy, rule, |access| &access.deny_countries)
            && is_in(deny)
        {
            return Err(DenialReason::CountryDenied(by));
        }
        if let Some((by, allow)) = setting(policy, rule, |access| &access.allow_countries)
            && !is_in(allow)
        {
            return Err(DenialReason::CountryNotAllowed(by));
        }
    }
    Ok(())
}

/// Whether the owner refuses the crawler that the `User-Agent` names. A crawler that may not read `robots.txt` may assume
/// that there is none (RFC 9309 section 2.3.1.3), so that file is never refused.
fn refuses_crawler(policy: &Policy, info: &RequestInfo) -> bool {
    let rule = rule_of(&policy.access.crawlers, info.user_agent());
    rule.is_some_and(|rule| rule.treatment == CrawlerTreatment::Refuse)
        && info.decoded_path() != b"/robots.txt"
}

/// The setting that applies under a rule: the rule's own, otherwise the site's.
fn setting<'s, T>(
    policy: &'s Policy,
    rule: Option<usize>,
    of: impl Fn(&'s AccessRules) -> &'s AccessSetting<T>,
) -> Option<(By, &'s T)> {
    let rule = rule.and_then(|index| Some((By::Rule(index), of(&policy.rules.get(index)?.access))));
    match rule {
        Some((by, own)) if !own.is_silent() => own.get().map(|value| (by, value)),
        _ => of(&policy.access.common)
            .get()
            .map(|value| (By::Site, value)),
    }
}

fn names(networks: &[IpNet], client: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&client))
}
