//! Who may ask for what: networks, passwords, limits, and what WordPress shows to administrators alone.
//!
//! [`judge`] is asked before the cache, a file or PHP is, with the head alone. It refuses, or says what is still demanded: a
//! token of a bucket, a password, a look at the body. It keeps no state: buckets and passwords are the server's.
//! A site says what holds everywhere; a rule's own word stands in its place, each of the four by itself.

mod admin;
mod authors;
mod limit;
pub mod passwords;
pub mod xmlrpc;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;

use crate::outcome::RefusedWhy;
use crate::request_info::{Method, RequestInfo};
use crate::site::{Preset, SiteRules};

pub(crate) use self::admin::is_urlencoded;
pub use self::admin::{Area, area, is_visitors_form};
pub use self::authors::{asks_in_head, form};
pub use self::limit::{RateLimit, TICKS_PER_S, Taken};
use self::xmlrpc::XmlRpc;

/// What a site or one of its rules says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRules {
    /// Who may ask; nothing said: everybody.
    pub allow: AccessSetting<Vec<IpNet>>,
    /// Who may not, also where `allow` names him.
    pub deny: AccessSetting<Vec<IpNet>>,
    /// How often one client may ask.
    pub limit: AccessSetting<RateLimit>,
    /// The file with the names and passwords of those who may ask.
    pub password: AccessSetting<PathBuf>,
}

/// What is said of one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AccessSetting<T> {
    /// Nothing: as around it.
    #[default]
    Nothing,
    /// That there is none, whatever is said around it.
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

    fn is_silent(&self) -> bool {
        matches!(self, Self::Nothing)
    }
}

impl AccessRules {
    /// Whether nothing is said.
    pub fn is_silent(&self) -> bool {
        self.allow.is_silent()
            && self.deny.is_silent()
            && self.limit.is_silent()
            && self.password.is_silent()
    }

    /// Whether access is restricted.
    pub fn closes(&self) -> bool {
        self.allow.get().is_some()
            || self.deny.get().is_some()
            || self.limit.get().is_some()
            || self.password.get().is_some()
    }
}

/// What a site says beside that.
#[derive(Clone, Debug, Default)]
pub struct SiteAccess {
    /// For all paths for which no rule says otherwise.
    pub common: AccessRules,
    /// Who may administer; empty: whoever can log in.
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

impl SiteRules {
    /// Whether nothing that a `GET` asks for is kept from anybody: such a site's hits are not judged.
    pub fn is_open(&self) -> bool {
        self.access.common.is_silent()
            && self.access.admin_allow.is_empty()
            && !self.access.hide_authors
            && self.rules.iter().all(|rule| rule.access.is_silent())
    }

    /// The files of names and passwords, by who says so.
    pub fn password_files(&self) -> impl Iterator<Item = (By, &Path)> {
        let rules = self.rules.iter().map(|rule| &rule.access);
        let of_rules = (0..).map(By::Rule).zip(rules);
        let all = std::iter::once((By::Site, &self.access.common)).chain(of_rules);
        all.filter_map(|(by, access)| Some((by, access.password.get()?.as_path())))
    }
}

/// Who says what applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// The site.
    Site,
    /// Its rule of this index.
    Rule(usize),
}

/// Why a request goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barred {
    /// `deny` names the client.
    Denied(By),
    /// `allow` does not.
    NotAllowed(By),
    /// `admin_allow` does not, and this is for administrators.
    NotAdmin,
    /// There is no XML-RPC.
    XmlRpc,
    /// It asks who the authors are.
    Authors,
}

impl Barred {
    /// The reason in the words of log and header.
    pub const fn why(self) -> RefusedWhy {
        match self {
            Self::Denied(_) | Self::NotAllowed(_) => RefusedWhy::Network,
            Self::NotAdmin => RefusedWhy::Admin,
            Self::XmlRpc => RefusedWhy::XmlRpc,
            Self::Authors => RefusedWhy::Authors,
        }
    }
}

/// What is demanded of a request that is not barred.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demands<'s> {
    /// A token of each of these buckets.
    pub limits: Vec<(Bucket, &'s RateLimit)>,
    /// A name and a password of each of these files.
    pub passwords: Vec<By>,
    /// A look at its body.
    pub body: Option<BodyCheck>,
    /// That its body selects no page ([`crate::spellings`]).
    pub form: bool,
}

impl Demands<'_> {
    /// Whether nothing is.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What a client's tokens are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bucket {
    /// A site's or a rule's own.
    Of(By),
    /// What is sent to `wp-login.php`.
    Login,
    /// `xmlrpc.php`.
    XmlRpc,
    /// Passwords that have to be compared.
    Password,
}

/// What is looked for in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyCheck {
    /// Methods of XML-RPC that are not served.
    XmlRpc,
    /// Whether it makes of a visitor's form one of administrators.
    VisitorsForm,
    /// Whether it asks who the authors are.
    Authors,
}

/// Who may ask, and on what terms. Does not allocate for what goes the fast path: what nothing is demanded of.
pub fn judge<'s>(
    site: &'s SiteRules,
    facts: &RequestInfo,
    client: IpAddr,
) -> Result<Demands<'s>, Barred> {
    let client = client.to_canonical();
    let access = &site.access;
    networks(site, facts, client)?;
    let area = area(facts);
    let is_stranger = !access.admin_allow.is_empty() && !names(&access.admin_allow, client);
    if is_stranger && area == Area::Admins {
        return Err(Barred::NotAdmin);
    }
    let is_wordpress = site.preset == Preset::WordPress;
    let is_xmlrpc = is_wordpress && xmlrpc::is_meant(facts);
    if is_xmlrpc && access.xmlrpc == XmlRpc::Off {
        return Err(Barred::XmlRpc);
    }
    if access.hide_authors && asks_in_head(facts) {
        return Err(Barred::Authors);
    }
    let is_post = facts.method() == Method::Post;
    let special = if is_xmlrpc {
        access
            .xmlrpc_limit
            .as_ref()
            .map(|limit| (Bucket::XmlRpc, limit))
    } else if is_wordpress && is_post && admin::is_login(facts) {
        access
            .login_limit
            .as_ref()
            .map(|limit| (Bucket::Login, limit))
    } else {
        None
    };
    let body = if is_xmlrpc && is_post && access.xmlrpc == XmlRpc::Limited {
        Some(BodyCheck::XmlRpc)
    } else if is_stranger && is_post && area == Area::VisitorsForm {
        Some(BodyCheck::VisitorsForm)
    } else if access.hide_authors && authors::may_ask_in_body(facts) {
        Some(BodyCheck::Authors)
    } else {
        None
    };
    let mut demands = Demands {
        limits: Vec::new(),
        passwords: Vec::new(),
        body,
        form: is_post && site.guard.looks_into_form(facts.decoded_path()),
    };
    for rule in facts.guarding() {
        let limit = said(site, rule, |access| &access.limit);
        let limit = limit.map(|(by, limit)| (Bucket::Of(by), limit));
        let password = said(site, rule, |access| &access.password);
        demands
            .limits
            .extend(limit.filter(|one| !demands.limits.contains(one)));
        let by = password.map(|(by, _)| by);
        demands
            .passwords
            .extend(by.filter(|one| !demands.passwords.contains(one)));
    }
    demands.limits.extend(special);
    Ok(demands)
}

fn networks(site: &SiteRules, facts: &RequestInfo, client: IpAddr) -> Result<(), Barred> {
    for rule in facts.guarding() {
        if let Some((by, deny)) = said(site, rule, |access| &access.deny)
            && names(deny, client)
        {
            return Err(Barred::Denied(by));
        }
        if let Some((by, allow)) = said(site, rule, |access| &access.allow)
            && !names(allow, client)
        {
            return Err(Barred::NotAllowed(by));
        }
    }
    Ok(())
}

/// What holds under a rule: its own word, else the site's.
fn said<'s, T>(
    site: &'s SiteRules,
    rule: Option<usize>,
    of: impl Fn(&'s AccessRules) -> &'s AccessSetting<T>,
) -> Option<(By, &'s T)> {
    let rule = rule.and_then(|index| Some((By::Rule(index), of(&site.rules.get(index)?.access))));
    match rule {
        Some((by, said)) if !said.is_silent() => said.get().map(|value| (by, value)),
        _ => of(&site.access.common).get().map(|value| (By::Site, value)),
    }
}

fn names(networks: &[IpNet], client: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&client))
}

#[cfg(test)]
mod tests;
