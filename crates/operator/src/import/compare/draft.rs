//! The draft as it runs in a test: on loopback ports, with a separate folder, and without any access to other machines.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// Replacements for values in the draft.
#[derive(Clone, Debug)]
pub(super) struct DraftPlaces {
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
    /// Password files and their replacements.
    pub(super) passwords: Vec<ReplacedFile>,
    /// Whether `X-Forwarded-For` determines a visitor's address, as in the copy of the old configuration.
    pub(super) takes_addresses: bool,
}

/// A file and its replacement.
#[derive(Clone, Debug)]
pub(super) struct ReplacedFile {
    pub(super) path: PathBuf,
    pub(super) by: PathBuf,
}

/// The text of the configuration for the test. The error is the reason why the draft cannot be used.
pub(super) fn loopback(draft: &str, places: &DraftPlaces) -> Result<String, String> {
    let mut all: Table = draft
        .parse()
        .map_err(|error: toml::de::Error| error.to_string())?;
    if all.contains_key("include") {
        return Err("`include` is not followed: name a file that is whole".to_owned());
    }
    for section in ["acme", "cluster", "log", "admin"] {
        all.remove(section);
    }
    let mut has_tls = false;
    for site in tables(&mut all, "site") {
        has_tls |= self::site(site, places);
    }
    let server = section(&mut all, "server");
    for option in SERVER_WITHOUT {
        server.remove(*option);
    }
    let any: [Value; 2] = ["0.0.0.0/0".into(), "::/0".into()];
    server.insert(
        "listen".to_owned(),
        Value::Array(vec!["127.0.0.1:0".into()]),
    );
    server.insert("limit_exempt".to_owned(), Value::Array(any.to_vec()));
    if has_tls {
        server.insert(
            "listen_tls".to_owned(),
            Value::Array(vec!["127.0.0.1:0".into()]),
        );
    }
    if places.takes_addresses {
        let mut proxies = server
            .get("trusted_proxies")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        proxies.push("127.0.0.0/8".into());
        server.insert("trusted_proxies".to_owned(), Value::Array(proxies));
        server.remove("client_field");
    }
    let cache = section(&mut all, "cache");
    for option in ["disk", "disk_size", "disk_size_per_site", "inactive"] {
        cache.remove(option);
    }
    section(&mut all, "admin").insert("listen".to_owned(), "off".into());
    section(&mut all, "log").insert("access".to_owned(), "off".into());
    Ok(all.to_string())
}

/// Adapts a site. Returns whether it has TLS.
fn site(site: &mut Table, places: &DraftPlaces) -> bool {
    for option in SITE_WITHOUT {
        site.remove(*option);
    }
    site.insert("cron".to_owned(), "off".into());
    let has_tls = site.contains_key("tls");
    if has_tls {
        let mut tls = Table::new();
        tls.insert("cert".to_owned(), text(&places.cert));
        tls.insert("key".to_owned(), text(&places.key));
        site.insert("tls".to_owned(), Value::Table(tls));
    }
    if site.get("https_redirect").and_then(Value::as_bool) == Some(true) {
        // The listener has another port than visitors see.
        site.entry("https_port").or_insert(Value::Integer(443));
    }
    password(site, places);
    for rule in tables(site, "rule") {
        password(rule, places);
    }
    has_tls
}

fn password(section: &mut Table, places: &DraftPlaces) {
    if let Some(Value::String(path)) = section.get_mut("basic_auth")
        && let Some(replaced) = places
            .passwords
            .iter()
            .find(|one| one.path == Path::new(path.as_str()))
    {
        *path = replaced.by.display().to_string();
    }
}

fn section<'a>(all: &'a mut Table, name: &str) -> &'a mut Table {
    let value = all
        .entry(name)
        .or_insert_with(|| Value::Table(Table::new()));
    if !value.is_table() {
        *value = Value::Table(Table::new());
    }
    value.as_table_mut().expect("it was made a table above")
}

fn tables<'a>(all: &'a mut Table, name: &str) -> impl Iterator<Item = &'a mut Table> {
    let list = all.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_table_mut)
}

fn text(path: &Path) -> Value {
    Value::String(path.display().to_string())
}

/// Options of the server that depend on its environment, or that limit clients in ways that would disturb the test.
const SERVER_WITHOUT: &[&str] = &[
    "listen",
    "listen_tls",
    "proxy_protocol",
    "connections_per_address",
    "spool",
    "watch",
    "min_rate",
];

/// Options of a site that write files, that contact other machines, or that depend on the environment.
const SITE_WITHOUT: &[&str] = &[
    "listen",
    "listen_tls",
    "log",
    "nginx_cache_path",
    "purge_directory",
    "purge_forward",
    "token_file",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_is_changed_to_loopback_ports() {
        let places = DraftPlaces {
            cert: PathBuf::from("/t/c"),
            key: PathBuf::from("/t/k"),
            passwords: vec![ReplacedFile {
                path: PathBuf::from("/etc/users"),
                by: PathBuf::from("/t/users-0"),
            }],
            takes_addresses: true,
        };
        let draft = "[server]\nlisten = [\"0.0.0.0:80\"]\nlisten_tls = [\"0.0.0.0:443\"]\n[cache]\ndisk = \"/c\"\nmemory = \"1MiB\"\n\
            [acme]\nemail = \"a@b\"\n[[site]]\nhosts = [\"a\"]\ntls = \"auto\"\nhttps_redirect = true\nbasic_auth = \"/etc/other\"\n\
            [site.log]\naccess = \"/l\"\n[[site.rule]]\npath = \"/a\"\nbasic_auth = \"/etc/users\"\n";
        let made: Table = loopback(draft, &places).unwrap().parse().unwrap();
        let server = made["server"].as_table().unwrap();
        assert_eq!(
            server["listen"].as_array().unwrap(),
            &["127.0.0.1:0".into()]
        );
        assert_eq!(server["listen_tls"].as_array().unwrap().len(), 1);
        assert!(
            !made.contains_key("acme") && !made["cache"].as_table().unwrap().contains_key("disk")
        );
        let site = made["site"][0].as_table().unwrap();
        assert_eq!(site["tls"]["cert"].as_str(), Some("/t/c"));
        assert_eq!(site["basic_auth"].as_str(), Some("/etc/other"));
        assert_eq!(site["rule"][0]["basic_auth"].as_str(), Some("/t/users-0"));
        assert!(!site.contains_key("log"));
        assert!(loopback("a = ", &places).is_err());
        assert!(loopback("site = 1\nserver = 2", &places).is_ok());
    }
}
