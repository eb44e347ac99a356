//! Access control of a site and of its rules.

use std::path::{Path, PathBuf};

use galley_certs::file::{self, FileError};
use galley_policy::access::XmlRpc;
use galley_policy::access::{
    AccessRules, AccessSetting, CountryCode, RateLimit, SiteAccess, passwords,
};
use galley_policy::pattern::PathPattern;
use galley_policy::site::{EqualSpellings, Preset, Rule};
use galley_policy::spellings::SpellingGuard;
use ipnet::IpNet;

use crate::diagnostic::{Diagnostics, shown};
use crate::tree::SectionTable;

/// The access settings of a site.
pub(crate) fn site(
    site: &SectionTable,
    preset: Preset,
    diagnostics: &mut Diagnostics,
) -> SiteAccess {
    let is_wordpress = preset == Preset::WordPress;
    let limit = |name: &str, (per_minute, burst)| match site.get(name) {
        Some(AccessSetting::Is(limit)) => Some(limit),
        None if is_wordpress => RateLimit::new(per_minute, 60, burst),
        Some(AccessSetting::Off | AccessSetting::Nothing) | None => None,
    };
    SiteAccess {
        common: common(site, diagnostics),
        admin_allow: site.get("admin_allow").unwrap_or_default(),
        login_limit: limit("login_limit", LOGIN),
        xmlrpc_limit: limit("xmlrpc_limit", XMLRPC),
        xmlrpc: xmlrpc(site).unwrap_or(if is_wordpress {
            XmlRpc::Limited
        } else {
            XmlRpc::On
        }),
        crawlers: site.get("crawler_rules").unwrap_or_default(),
    }
}

fn xmlrpc(site: &SectionTable) -> Option<XmlRpc> {
    let word: String = site.get("xmlrpc")?;
    XmlRpc::ALL.iter().find(|one| one.word() == word).copied()
}

/// The access settings that sites and rules share.
pub(crate) fn common(section: &SectionTable, diagnostics: &mut Diagnostics) -> AccessRules {
    let networks = |name: &str| match section.get::<Vec<IpNet>>(name) {
        None => AccessSetting::Nothing,
        Some(list) if list.is_empty() => AccessSetting::Off,
        Some(list) => AccessSetting::Is(list),
    };
    let countries = |name: &str| match section.get::<Vec<CountryCode>>(name) {
        None => AccessSetting::Nothing,
        Some(list) if list.is_empty() => AccessSetting::Off,
        Some(list) => AccessSetting::Is(list),
    };
    let password: AccessSetting<PathBuf> = section.get("basic_auth").unwrap_or_default();
    if let AccessSetting::Is(file) = &password {
        check_passwords(section, "basic_auth", file, diagnostics);
    }
    AccessRules {
        allow: networks("allow"),
        deny: networks("deny"),
        allow_countries: countries("allow_countries"),
        deny_countries: countries("deny_countries"),
        limit: section.get("limit").unwrap_or_default(),
        password,
    }
}

/// Warns that a rule that denies pages of WordPress cannot deny all of their content. A rate limit hides nothing and gets no
/// warning.
pub(crate) fn reach(
    section: &SectionTable,
    rule: &Rule,
    spellings: EqualSpellings,
    diagnostics: &mut Diagnostics,
) {
    let access = &rule.access;
    let hides = access.allow.get().is_some()
        || access.deny.get().is_some()
        || access.names_countries()
        || access.password.get().is_some();
    let guard = SpellingGuard::of(spellings, std::slice::from_ref(rule), false);
    if !hides || !guard.may_close_pages() {
        return;
    }
    let name = if section.has("pattern") {
        "pattern"
    } else {
        "path"
    };
    let path = rule
        .pattern
        .as_ref()
        .map_or(rule.path.as_str(), PathPattern::text);
    let message = format!(
        "the rule for {} blocks an address in every form that WordPress itself knows, but not addresses of \
             custom rewrite rules, and not the same content in searches, feeds and the REST API",
        shown(path)
    );
    let help = "make the page private in WordPress if its content is secret, and add a rule for each custom address; \
         docs/how-to/access.md has the list. Every rule of this kind also applies to `?p=` and `?page_id=`";
    diagnostics.warn(
        section.position(name),
        format!("site.rule.{name}"),
        message,
        help,
    );
}

/// Checks that a password file exists and that each line is valid.
pub(crate) fn check_passwords(
    section: &SectionTable,
    name: &str,
    file: &Path,
    diagnostics: &mut Diagnostics,
) {
    let Err((why, help)) = read(file) else { return };
    let why = format!("is `{}`, {why}", file.display());
    section.report(name, why, help, diagnostics);
}

fn read(path: &Path) -> Result<(), (String, String)> {
    let make = format!("create it with `htpasswd -B -c {} NAME`", path.display());
    let text = file::read_text(path, passwords::MAX_BYTES).map_err(|unread| {
        let help = match unread {
            FileError::NotRegular(_) | FileError::TooLarge(_) => MAKE_ANOTHER.to_owned(),
            FileError::System(_) | FileError::NotText(_) => make.clone(),
        };
        (unread.to_string(), help)
    })?;
    passwords::check(&text).map_err(|bad| (format!("of which {bad}"), make))
}

const MAKE_ANOTHER: &str = "name a password file: `htpasswd -B -c FILE NAME` creates one";

/// Login attempts per minute, and in one burst. The burst lets a user try several passwords in succession.
const LOGIN: (u64, u64) = (5, 15);

/// XML-RPC calls per minute, and in one burst. A client application sends a few dozen calls when it starts.
const XMLRPC: (u64, u64) = (20, 60);
