//! Checks beyond single values: options that exclude or require each other, hosts of several sites, and the files and folders
//! that options name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use galley_certs::file::{self, FileError};
use galley_policy::access::{AccessSetting, CountryCode, RateLimit};
use galley_policy::route::HostPattern;

use crate::config::{Config, MAX_ERROR_PAGE, MAX_TOKEN_FILE, SiteConfig};
use crate::diagnostic::{Diagnostics, SourceSpan, shown};
use crate::listen::{AdminListen, Listen};
use crate::log::LogTarget;
use crate::tree::{SectionTable, SiteTables};

/// Reports an error if a required option is missing.
pub(crate) fn required(
    section: &SectionTable,
    name: &str,
    help: &str,
    diagnostics: &mut Diagnostics,
) {
    if !section.has(name) {
        let message = format!("`{}` is missing", section.path(name));
        diagnostics.add(&section.position, section.path(name), message, help);
    }
}

/// Reports an empty list.
pub(crate) fn not_empty(
    section: &SectionTable,
    name: &str,
    what: &str,
    diagnostics: &mut Diagnostics,
) {
    if section.list_len(name) == Some(0) {
        let why = "is `[]`, an empty list";
        let help = format!("name {what}, or leave the option out where it has a default");
        section.report(name, why, help, diagnostics);
    }
}

/// Checks the lists of listeners of a site or of the server.
pub(crate) fn listeners(section: &SectionTable, diagnostics: &mut Diagnostics) {
    for name in ["listen", "listen_tls"] {
        not_empty(section, name, "an address", diagnostics);
        no_address_twice(section, name, diagnostics);
    }
    no_address_twice(section, "listen_quic", diagnostics);
}

/// Reports repeated listeners. Port 0 is a different port each time.
fn no_address_twice(section: &SectionTable, name: &str, diagnostics: &mut Diagnostics) {
    let list: Vec<(SourceSpan, Listen)> = section.get(name).unwrap_or_default();
    for (index, (position, address)) in list.iter().enumerate() {
        if let Some((first, _)) = list
            .iter()
            .take(index)
            .find(|(_, other)| other == address && !address.is_any_port())
        {
            let message = format!(
                "`{}` names `{address}` a second time; the first is at {}",
                section.path(name),
                diagnostics.spot(first)
            );
            diagnostics.add(
                position,
                section.path(name),
                message,
                "remove one of the two",
            );
        }
    }
}

/// Checks that a root is a folder.
pub(crate) fn root(section: &SectionTable, diagnostics: &mut Diagnostics) {
    let Some(root) = section.get::<PathBuf>("root") else {
        return;
    };
    let why = match fs::metadata(&root) {
        Ok(found) if found.is_dir() => return,
        Ok(_) => "which is not a folder".to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "which does not exist".to_owned()
        }
        Err(error) => format!("which cannot be read: {error}"),
    };
    let why = format!("is {}, {why}", shown_path(&root));
    let help = "name the folder with the site's files";
    section.report("root", why, help, diagnostics);
}

/// The folders of an option. Warns of those that do not exist.
pub(crate) fn folders(
    section: &SectionTable,
    name: &str,
    diagnostics: &mut Diagnostics,
) -> Vec<PathBuf> {
    let folders: Vec<PathBuf> = section.value(name);
    for path in &folders {
        folder(section, name, path, diagnostics);
    }
    folders
}

/// Warns of a folder of an option that does not exist: its files get 404.
pub(crate) fn folder(
    section: &SectionTable,
    name: &str,
    path: &Path,
    diagnostics: &mut Diagnostics,
) {
    let why = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return,
        Ok(_) => "which is not a folder".to_owned(),
        Err(error) => format!("which cannot be used: {error}"),
    };
    let option = section.path(name);
    let message = format!("`{option}` contains {}, {why}", shown_path(path));
    let help = "create the folder and run `galley reload`, or remove it from the option";
    diagnostics.warn(section.position(name), option, message, help);
}

/// Checks that an error page is a readable file within the size limit.
pub(crate) fn error_page(
    section: &SectionTable,
    name: &str,
    page: Option<PathBuf>,
    diagnostics: &mut Diagnostics,
) {
    let Some(page) = page else {
        return;
    };
    let Err(why) = file::read_text(&page, MAX_ERROR_PAGE) else {
        return;
    };
    let why = format!("is {}, {why}", shown_path(&page));
    let help =
        "name an HTML page in UTF-8 with embedded styles and images, or leave the option out";
    section.report(name, why, help, diagnostics);
}

/// Checks that a token file exists, is private, and is long enough not to be guessed.
pub(crate) fn token_file(section: &SectionTable, name: &str, diagnostics: &mut Diagnostics) {
    if let Some(file) = section.get::<PathBuf>(name) {
        token_at(section, name, section.position(name), &file, diagnostics);
    }
}

/// As [`token_file`], for a key from which others are derived.
pub(crate) fn key_file(section: &SectionTable, name: &str, diagnostics: &mut Diagnostics) {
    if let Some(file) = section.get::<PathBuf>(name) {
        secret_at(
            section,
            name,
            section.position(name),
            &file,
            MIN_KEY,
            diagnostics,
        );
    }
}

/// As [`token_file`], for a file that no option names; `position`: where `name` would be.
pub(crate) fn token_at(
    section: &SectionTable,
    name: &str,
    position: &SourceSpan,
    file: &Path,
    diagnostics: &mut Diagnostics,
) {
    secret_at(section, name, position, file, MIN_TOKEN, diagnostics);
}

fn secret_at(
    section: &SectionTable,
    name: &str,
    position: &SourceSpan,
    file: &Path,
    least: usize,
    diagnostics: &mut Diagnostics,
) {
    let Err((why, help)) = token(file, least) else {
        return;
    };
    let option = section.path(name);
    let message = format!("`{option}` is {}, {why}", shown_path(file));
    diagnostics.add(position, option, message, help);
}

/// Reports options that contradict each other or their purpose.
pub(crate) fn applications(options: &SectionTable, diagnostics: &mut Diagnostics) {
    litespeed(options, diagnostics);
    members(options, diagnostics);
    outer_ttl(options, diagnostics);
    esi(options, diagnostics);
}

/// Without the preset Galley ignores the headers of `LiteSpeed` Cache.
fn litespeed(options: &SectionTable, diagnostics: &mut Diagnostics) {
    let is_rfc9111 = options.value::<String>("preset") == "none";
    if options.value::<bool>("litespeed") && is_rfc9111 {
        let why = "is given, but without the WordPress preset Galley ignores LiteSpeed Cache";
        let help = "remove it, or remove `preset = \"none\"`";
        options.report("litespeed", why, help, diagnostics);
    }
}

/// Without the preset Galley cannot distinguish members from other visitors.
fn members(options: &SectionTable, diagnostics: &mut Diagnostics) {
    let is_rfc9111 = options.value::<String>("preset") == "none";
    if options.value::<String>("members") == "fragments" && is_rfc9111 {
        let why = "is `fragments`, but without the WordPress preset Galley does not know members";
        let help = "remove it, or remove `preset = \"none\"`";
        options.report("members", why, help, diagnostics);
    }
}

/// Without a cluster there are no nodes that could share limits.
pub(crate) fn shared_limits(site: &SiteTables, diagnostics: &mut Diagnostics) {
    for options in site.rules.iter().chain([&site.options]) {
        for name in ["limit", "login_limit", "xmlrpc_limit"] {
            let limit: Option<AccessSetting<RateLimit>> =
                options.has(name).then(|| options.get(name)).flatten();
            if matches!(limit, Some(AccessSetting::Is(limit)) if limit.is_shared()) {
                let why = "has `shared = true`, but there is no `[cluster]`";
                options.report(
                    name,
                    why,
                    "remove `shared`, or add `[cluster]`",
                    diagnostics,
                );
            }
        }
    }
}

/// Options with countries require a database.
pub(crate) fn countries(site: &SiteTables, diagnostics: &mut Diagnostics) {
    for options in site.rules.iter().chain([&site.options]) {
        for name in ["allow_countries", "deny_countries", "countries"] {
            let list: Vec<CountryCode> = options
                .has(name)
                .then(|| options.get(name))
                .flatten()
                .unwrap_or_default();
            if !list.is_empty() {
                options.report(name, NO_GEOIP, NAME_GEOIP, diagnostics);
            }
        }
    }
}

/// Caches in front do not know which rule applied to a page.
pub(crate) fn outer_countries(site: &SiteTables, diagnostics: &mut Diagnostics) {
    let by_country = site.rules.iter().any(|rule| rule.has("countries"));
    if by_country && site.options.has("outer_ttl") {
        let why = "is given, but a cache in front would mix what the rules with `countries` send";
        let help = "remove one of the two";
        site.options.report("outer_ttl", why, help, diagnostics);
    }
}

pub(crate) const NO_GEOIP: &str = "needs the countries of clients, but there is no `server.geoip`";
pub(crate) const NAME_GEOIP: &str = "add `geoip = \"/path/GeoLite2-Country.mmdb\"` to `[server]`";

/// Other caches know neither the variants nor the fields that an upstream sends without the preset.
fn outer_ttl(options: &SectionTable, diagnostics: &mut Diagnostics) {
    if !options.has("outer_ttl") {
        return;
    }
    let why = if options.value::<String>("preset") == "none" {
        "is given, but with `preset = \"none\"` the upstream says how long caches may store"
    } else if options.value::<bool>("device_variants") {
        "is given, but a cache in front would mix the variants of `device_variants`"
    } else if options.value::<bool>("esi") {
        "is given, but a purge of an ESI include would not reach the pages of `esi` in other caches"
    } else {
        return;
    };
    options.report("outer_ttl", why, "remove one of the two", diagnostics);
}

/// Rejects a list of hosts with `*`.
fn esi(options: &SectionTable, diagnostics: &mut Diagnostics) {
    let hosts: Vec<HostPattern> = options.value("esi_hosts");
    if hosts.contains(&HostPattern::Any) {
        let why = "contains `*`: an include must not name every host";
        options.report("esi_hosts", why, "list the hosts", diagnostics);
    }
}

/// Why a file is not suitable for a secret, and the remedy.
fn token(path: &Path, least: usize) -> Result<(), (String, String)> {
    let path_text = path.display();
    let make =
        || format!("create one: `openssl rand -hex 32 > {path_text}; chmod 600 {path_text}`");
    let token = match file::read(path, MAX_TOKEN_FILE) {
        Ok(found) => found,
        Err(FileError::TooLarge(most)) => {
            let why = format!("whose token is longer than {most} bytes");
            return Err((why, make()));
        }
        Err(unread @ FileError::NotRegular(_)) => {
            let help = "name a file with a token: `openssl rand -hex 32 > FILE; chmod 600 FILE`";
            return Err((unread.to_string(), help.to_owned()));
        }
        Err(unread) => return Err((unread.to_string(), make())),
    };
    if is_exposed(token.owner, token.mode) {
        let why = format!(
            "which other users can access (mode {:03o})",
            token.mode & 0o777
        );
        let help = format!(
            "restrict it to its owner: `chmod 600 {path_text}`, and replace the token if somebody may have read it"
        );
        return Err((why, help));
    }
    if token.bytes.trim_ascii().len() < least {
        let why = format!("whose token is shorter than {least} bytes");
        return Err((why, make()));
    }
    Ok(())
}

/// Whether unauthorized users may read or change a secret. Containers get secrets as files of root that the group of their
/// process may read.
fn is_exposed(owner: u32, mode: u32) -> bool {
    let other_bits = if owner == 0 { 0o037 } else { 0o077 };
    mode & other_bits != 0
}

/// Checks that the folders of log files exist; otherwise the first lost line would reveal a missing one.
pub(crate) fn log_folders(section: &SectionTable, diagnostics: &mut Diagnostics) {
    for name in ["access", "error"] {
        let Some(LogTarget::File(file)) = section.get(name) else {
            continue;
        };
        let folder = file.parent().unwrap_or(Path::new("/"));
        if !folder.is_dir() || file.is_dir() {
            let why = if file.is_dir() {
                "which is a folder"
            } else {
                "whose folder does not exist"
            };
            let why = format!("is {}, {why}", shown_path(&file));
            let help = format!(
                "create the folder, or name a file in another one; `{name} = {}` needs none",
                if name == "access" {
                    "\"stdout\""
                } else {
                    "\"stderr\""
                }
            );
            section.report(name, why, help, diagnostics);
        }
    }
}

/// Checks that a rule selects its paths by exactly one of two options.
pub(crate) fn paths(section: &SectionTable, diagnostics: &mut Diagnostics) {
    if section.has("pattern") && section.has("path") {
        let message = "`site.rule.path` and `site.rule.pattern` are both given, but one of them says which paths are meant";
        let help = "remove one of the two";
        diagnostics.add(
            section.position("pattern"),
            "site.rule.pattern",
            message,
            help,
        );
    }
    if !section.has("pattern") {
        required(
            section,
            "path",
            "add `path = \"/form\"`, or `path = \"/*\"` for every path",
            diagnostics,
        );
    }
}

/// Reports a host of two sites at one address, and a host that one site names twice.
pub(crate) fn hosts(sections: &[SiteTables], sites: &[SiteConfig], diagnostics: &mut Diagnostics) {
    let mut claims: BTreeMap<String, Vec<(usize, SourceSpan)>> = BTreeMap::new();
    for (index, one) in sections.iter().enumerate() {
        let hosts: Vec<(SourceSpan, HostPattern)> = one.options.get("hosts").unwrap_or_default();
        for (position, host) in hosts {
            let text = host.to_string();
            let earlier = claims.entry(text.clone()).or_default();
            let mut taken = earlier.iter();
            let clash =
                taken.find(|(other, _)| *other == index || may_overlap(sites, *other, index));
            if let Some((other, first)) = clash {
                let (why, help) = if *other == index {
                    (" a second time; the first is at", "remove one of the two")
                } else {
                    (", which another site has at", TWO_SITES)
                };
                let spot = diagnostics.spot(first);
                let message = format!("`site.hosts` names `{text}`{why} {spot}");
                diagnostics.add(&position, "site.hosts", message, help);
            }
            earlier.push((index, position));
        }
    }
}

fn may_overlap(sites: &[SiteConfig], a: usize, b: usize) -> bool {
    let (Some(a), Some(b)) = (sites.get(a), sites.get(b)) else {
        return false;
    };
    let overlap = |a: &[Listen], b: &[Listen]| a.iter().any(|x| b.iter().any(|y| x.overlaps(y)));
    overlap(&a.listen, &b.listen) || overlap(&a.listen_tls, &b.listen_tls)
}

/// Reports an error if the admin interface and sites have the same address.
pub(crate) fn admin_address(
    section: &SectionTable,
    config: &Config,
    diagnostics: &mut Diagnostics,
) {
    let AdminListen::Tcp(admin) = config.admin.listen else {
        return;
    };
    let mut public = config
        .server
        .listen
        .iter()
        .chain(config.sites.iter().flat_map(|site| &site.listen))
        .chain(config.sites.iter().flat_map(|site| &site.listen_tls));
    let listener = Listen::Tcp(admin);
    if let Some(taken) = public.find(|one| !listener.is_any_port() && listener.overlaps(one)) {
        let why = format!("is `{admin}`, but sites listen at `{taken}`");
        let help = "give it another port, or a socket: `unix:/run/galley/admin.sock`";
        section.report("listen", why, help, diagnostics);
    }
}

pub(crate) fn shown_path(path: &Path) -> String {
    shown(&path.display().to_string())
}

const TWO_SITES: &str =
    "keep the host in one of the sites, or give them different `listen` addresses";

/// Enough for 128 bits, if every byte is random.
const MIN_TOKEN: usize = 16;

/// Enough for 128 bits in hexadecimal.
const MIN_KEY: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_or_a_group_chosen_by_root_may_read_a_secret() {
        for (owner, mode, wanted) in [
            (1000, 0o600, false),
            (1000, 0o400, false),
            (1000, 0o640, true),
            (0, 0o440, false),
            (0, 0o640, false),
            (0, 0o460, true),
            (0, 0o444, true),
        ] {
            assert_eq!(is_exposed(owner, mode), wanted, "{owner} {mode:o}");
        }
    }
}
