//! Turns the findings into a configuration with explanations.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use galley_certs::CertificateFiles;
use galley_config::write_size;

use super::certbot;
use super::find::{DetectedSite, Detection};
use super::host::{PhpBackend, VirtualHost};
use super::wordpress::{NetworkKind, WordPressInfo};

/// The upstream for PHP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhpChoice {
    /// A running PHP-FPM: `unix:/path` or `host:port`.
    Fpm(String),
    /// Galley runs PHP-FPM.
    Managed,
    /// Apache with its PHP module: `http://address:port`.
    Http(String),
}

/// The source of a site's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsChoice {
    /// No HTTPS.
    Off,
    /// Galley obtains the certificate.
    Auto,
    /// Existing files.
    Files(CertificateFiles),
    /// Copies of certbot's certificate with this name, which a hook of certbot renews.
    Certbot(String),
}

/// One site of the configuration.
#[derive(Clone, Debug)]
pub struct SiteDraft {
    /// The folder of WordPress.
    pub root: PathBuf,
    /// The hosts, WordPress's own host first.
    pub hosts: Vec<String>,
    /// Whether visitors use `https`.
    pub is_https: bool,
    /// The upstream for PHP.
    pub php: PhpChoice,
    /// The number of PHP workers, if known.
    pub in_flight: Option<u32>,
    /// The certificate.
    pub tls: TlsChoice,
    /// Whether the site is a multisite network with subdirectories.
    pub is_folder_network: bool,
    /// The maximum size of an upload in bytes, if the current server has a limit.
    pub request_body: Option<u64>,
    /// Folders outside the root to which links below it lead.
    pub link_targets: Vec<PathBuf>,
    /// Explanations, one line each.
    pub notes: Vec<String>,
}

impl SiteDraft {
    /// Plans a site from the findings. The error is the reason why this WordPress cannot be set up, for people.
    pub fn new(
        site: &DetectedSite,
        info: Option<&WordPressInfo>,
        detection: &Detection,
        choices: &SetupChoices,
    ) -> Result<Self, String> {
        let reported = info.map(|info| info.home.as_str());
        let home = reported
            .or(site.wordpress.address.as_deref())
            .map(Address::parse);
        let home = home.transpose()?;
        if let Some(home) = &home
            && !home.path.is_empty()
        {
            return Err(format!(
                "its address ends with `{}`, and a WordPress below another folder needs a configuration by hand",
                home.path
            ));
        }
        let mut hosts: Vec<String> = home.iter().map(|home| home.host.clone()).collect();
        for name in site.hosts.iter().flat_map(|host| &host.names) {
            if !hosts.contains(name) {
                hosts.push(name.clone());
            }
        }
        let network = match info {
            Some(info) if info.is_network && info.has_subdomains => Some(NetworkKind::Subdomains),
            Some(info) if info.is_network => Some(NetworkKind::Folders),
            _ => site.wordpress.network,
        };
        let Some(first) = hosts.first().cloned() else {
            return Err("its address is unknown: WordPress does not start, and no web server names a host for it".to_owned());
        };
        if network == Some(NetworkKind::Subdomains) && !hosts.contains(&format!("*.{first}")) {
            hosts.push(format!("*.{first}"));
        }
        let mut notes = Vec::new();
        let php = match &choices.php {
            Some(address) => PhpChoice::Fpm(address.clone()),
            None => choose_php(site, detection, &mut notes)?,
        };
        let is_https = home.is_some_and(|home| home.is_https);
        let tls = choose_tls(choices.tls, site, detection, &hosts, &mut notes);
        if is_https && tls == TlsChoice::Off {
            notes.push("WordPress uses https, and Galley has no certificate for it: use --tls auto when Galley has port 443, or keep a TLS proxy in front".to_owned());
        }
        let request_body = site.hosts.iter().find_map(|host| host.request_body);
        Ok(Self {
            root: site.wordpress.root.clone(),
            in_flight: workers(&php, detection),
            is_folder_network: network == Some(NetworkKind::Folders),
            request_body: request_body.filter(|bytes| *bytes > DEFAULT_BODY),
            hosts,
            link_targets: galley_files::links_out_of(&site.wordpress.root, &[])
                .into_keys()
                .collect(),
            is_https,
            php,
            tls,
            notes,
        })
    }

    /// The host for requests of the test.
    pub fn host(&self) -> &str {
        self.hosts.first().map_or("localhost", String::as_str)
    }

    fn write(&self, text: &mut String, is_trial: bool) {
        text.push_str("\n[[site]]\n");
        for note in &self.notes {
            let note: String = note.chars().filter(|c| !c.is_control()).collect();
            let _ = writeln!(text, "# {note}.");
        }
        let _ = writeln!(text, "hosts = [{}]", list(&self.hosts));
        let _ = writeln!(text, "root = {}", path(&self.root));
        if !self.link_targets.is_empty() {
            let _ = writeln!(
                text,
                "# Links below the root lead to these folders; visitors get their files."
            );
            let folders: Vec<String> = self.link_targets.iter().map(|one| path(one)).collect();
            let _ = writeln!(text, "link_targets = [{}]", folders.join(", "));
        }
        match &self.php {
            PhpChoice::Fpm(address) => {
                let _ = writeln!(text, "php = {}", quoted(address));
            }
            PhpChoice::Managed => text.push_str("php = \"managed\"\n"),
            PhpChoice::Http(address) => {
                let _ = writeln!(text, "upstream = [{}]", quoted(address));
            }
        }
        if let Some(workers) = self.in_flight {
            let _ = writeln!(
                text,
                "# As many requests as PHP-FPM has workers (pm.max_children)."
            );
            let _ = writeln!(text, "in_flight = {workers}");
        }
        if self.is_folder_network {
            text.push_str("multisite = true\n");
        }
        if let Some(bytes) = self.request_body {
            let _ = writeln!(text, "request_body = \"{}\"", write_size(bytes));
        }
        if is_trial {
            text.push_str("cron = \"off\"\n");
            return;
        }
        match &self.tls {
            TlsChoice::Off => {}
            TlsChoice::Auto => text.push_str("tls = \"auto\"\n"),
            TlsChoice::Files(files) => write_files(text, files),
            TlsChoice::Certbot(name) => write_files(text, &certbot::certificate_copies(name)),
        }
    }
}

fn write_files(text: &mut String, files: &CertificateFiles) {
    let (cert, key) = (path(&files.cert), path(&files.key));
    let _ = writeln!(text, "tls = {{ cert = {cert}, key = {key} }}");
}

/// The user's choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupChoices {
    /// The certificates.
    pub tls: TlsPreference,
    /// The PHP-FPM of the sites; `None`: the detected one.
    pub php: Option<String>,
}

/// The certificates that the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPreference {
    /// Existing certificates.
    Found,
    /// Galley obtains them.
    Auto,
    /// No certificates.
    Off,
}

fn choose_tls(
    wish: TlsPreference,
    site: &DetectedSite,
    detection: &Detection,
    hosts: &[String],
    notes: &mut Vec<String>,
) -> TlsChoice {
    match wish {
        TlsPreference::Off => return TlsChoice::Off,
        TlsPreference::Auto => return TlsChoice::Auto,
        TlsPreference::Found => {}
    }
    let served = site.hosts.iter().find_map(|host| host.certificate.clone());
    let by_server = served
        .as_ref()
        .and_then(|files| certbot::name_of(&files.cert));
    let has_files = |name: &String| detection.certificates.iter().any(|own| own.name == *name);
    let certbot = by_server
        .into_iter()
        .chain(hosts.iter().cloned())
        .find(has_files);
    if let Some(name) = certbot {
        notes.push(format!("The certificate is that of certbot for {name}: a hook of certbot copies it here after each renewal"));
        return TlsChoice::Certbot(name);
    }
    match served {
        Some(files) => {
            notes.push("The certificate is that of the web server's configuration".to_owned());
            TlsChoice::Files(files)
        }
        None => TlsChoice::Off,
    }
}

fn choose_php(
    site: &DetectedSite,
    detection: &Detection,
    notes: &mut Vec<String>,
) -> Result<PhpChoice, String> {
    let configured = site
        .hosts
        .iter()
        .find_map(|host| Some((host, host.php.as_ref()?)));
    match configured {
        Some((host, PhpBackend::Module)) => {
            let address = plain_address(host).or_else(|| site.hosts.iter().find_map(plain_address));
            let Some(address) = address else {
                return Err("Apache runs PHP itself and listens only with TLS: see `Apache behind Galley` in the tutorial".to_owned());
            };
            notes.push("Apache runs PHP itself, so it stays behind Galley".to_owned());
            return Ok(PhpChoice::Http(format!("http://{address}")));
        }
        Some((host, backend)) => {
            notes.push(format!("PHP is the one that {} uses", host.server.name()));
            return Ok(PhpChoice::Fpm(fpm_address(backend)));
        }
        None => {}
    }
    let mut pools: Vec<_> = detection
        .pools
        .iter()
        .filter(|pool| pool.has_socket)
        .collect();
    // Prefers a pool with the user of WordPress's files, then the newest version.
    pools.sort_by_key(|pool| {
        let is_other_user = pool.user.is_none() || pool.user != site.wordpress.owner;
        let version = version_key(pool.version.as_deref());
        (is_other_user, std::cmp::Reverse(version))
    });
    if let Some(pool) = pools.first() {
        notes.push(format!(
            "PHP is the pool `{}` in {}",
            pool.name,
            pool.file.display()
        ));
        return Ok(PhpChoice::Fpm(fpm_address(&pool.listen)));
    }
    if detection.has_fpm_program {
        notes.push("No PHP-FPM runs, so Galley runs it".to_owned());
        return Ok(PhpChoice::Managed);
    }
    Err("no PHP-FPM is installed (Debian: apt install php-fpm php-mysql)".to_owned())
}

fn plain_address(host: &VirtualHost) -> Option<String> {
    let listen = host.listen.iter().find(|listen| !listen.is_tls)?;
    Some(listen.reachable().to_string())
}

fn version_key(version: Option<&str>) -> Vec<u32> {
    let parts = version.unwrap_or_default().split('.');
    parts.filter_map(|part| part.parse().ok()).collect()
}

fn fpm_address(backend: &PhpBackend) -> String {
    match backend {
        PhpBackend::Unix(path) => format!("unix:{}", path.display()),
        PhpBackend::Tcp(address) => address.clone(),
        PhpBackend::Module => String::new(),
    }
}

fn workers(php: &PhpChoice, detection: &Detection) -> Option<u32> {
    let PhpChoice::Fpm(address) = php else {
        return None;
    };
    let mut pools = detection.pools.iter();
    let pool = pools.find(|pool| fpm_address(&pool.listen) == *address)?;
    pool.workers
        .filter(|workers| (1..=65_536).contains(workers))
}

/// A URL such as `https://example.com/path`.
struct Address {
    is_https: bool,
    host: String,
    path: String,
}

impl Address {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("its address `{}` is not a URL", text.escape_debug());
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => authority,
        };
        let is_address = host.parse::<std::net::IpAddr>().is_ok();
        let mut names = super::host::host_names(host);
        let is_host = names.len() == 1 && !host.contains('*');
        if !is_host && !is_address {
            return Err(wrong());
        }
        Ok(Self {
            is_https: scheme.eq_ignore_ascii_case("https"),
            host: names.pop().unwrap_or_else(|| host.to_owned()),
            path: path.trim_end_matches('/').to_owned(),
        })
    }
}

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct SetupPlan {
    /// Listeners without TLS.
    pub listen: Vec<String>,
    /// The reason for these listeners, as a comment in the file.
    pub listen_note: String,
    /// Listeners with TLS, if a site has a certificate.
    pub listen_tls: Vec<String>,
    /// Whether the folders of the package are used.
    pub has_package: bool,
    /// The sites.
    pub sites: Vec<SiteDraft>,
}

impl SetupPlan {
    /// Whether a site has a certificate.
    pub fn has_tls(&self) -> bool {
        self.sites.iter().any(|site| site.tls != TlsChoice::Off)
    }

    /// The text of the file.
    pub fn configuration(&self) -> String {
        let mut text = String::from(HEAD);
        if self.has_package {
            text.push_str(
                "\n# Further sites, one file for each.\ninclude = [\"sites.d/*.toml\"]\n",
            );
        }
        text.push_str("\n[server]\n");
        let _ = writeln!(text, "# {}", self.listen_note);
        let _ = writeln!(text, "listen = [{}]", list(&self.listen));
        if self.has_tls() {
            let _ = writeln!(text, "listen_tls = [{}]", list(&self.listen_tls));
        }
        if self.has_package {
            text.push_str(PACKAGE);
        }
        for site in &self.sites {
            site.write(&mut text, false);
        }
        text
    }

    /// The same sites for a test: on a free loopback port, without TLS, disk, logs and scheduled tasks. Requests may set a scheme.
    pub(super) fn trial(&self, user: Option<&str>) -> String {
        let mut text = String::from(
            "[server]\nlisten = [\"127.0.0.1:0\"]\ntrusted_proxies = [\"127.0.0.1\"]\nworkers = 1\n",
        );
        if let Some(user) = user {
            let _ = writeln!(text, "user = {}", quoted(user));
        }
        text.push_str(
            "[admin]\nlisten = \"off\"\n[cache]\nmemory = \"16MiB\"\n[log]\naccess = \"off\"\n",
        );
        for site in &self.sites {
            site.write(&mut text, true);
        }
        text
    }
}

/// A list of TOML strings. JSON's escapes are valid in TOML, which additionally forbids U+007F.
fn list(all: &[String]) -> String {
    let names: Vec<String> = all.iter().map(|one| quoted(one)).collect();
    names.join(", ")
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text)
        .to_string()
        .replace('\u{7f}', "\\u007f")
}

fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

const HEAD: &str = "# Written by `galley setup`. Edit it as you like; `man galley.toml` explains every option.\n\
    # After a change: galley check && systemctl reload galley. To restore the state before: galley setup --undo\n";

const PACKAGE: &str = "\n[admin]\n# For galley status, galley purge and the WordPress plugin.\nlisten = \"unix:/run/galley/admin.sock\"\n\
    \n[cache]\n# Stored pages survive a restart.\ndisk = \"/var/cache/galley\"\n\
    \n[log]\naccess = \"/var/log/galley/access.log\"\n";

/// The default of `request_body`.
const DEFAULT_BODY: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::super::find::detect;
    use super::super::machine::sample::SampleMachine;
    use super::*;
    use proptest::prelude::*;

    fn sample() -> SampleMachine {
        SampleMachine::new(&[
            (
                "etc/nginx/nginx.conf",
                "http { server { listen 80; listen 443 ssl; server_name e.com www.e.com; root /var/www/e; client_max_body_size 64m;\
              ssl_certificate /etc/letsencrypt/live/e.com/fullchain.pem; ssl_certificate_key /etc/letsencrypt/live/e.com/privkey.pem;\
              location ~ x { fastcgi_pass unix:/run/php/www.sock; } } }",
            ),
            ("etc/letsencrypt/live/e.com/fullchain.pem", ""),
            ("etc/letsencrypt/live/e.com/privkey.pem", ""),
            (
                "etc/php/8.2/fpm/pool.d/www.conf",
                "[www]\nlisten=/run/php/www.sock\npm.max_children = 7\n",
            ),
            ("run/php/www.sock", ""),
            ("var/www/e/wp-load.php", ""),
            (
                "var/www/e/wp-config.php",
                "<?php define('WP_HOME', 'https://www.e.com');",
            ),
            ("usr/lib/systemd/system/galley.service", ""),
        ])
    }

    fn wish(tls: TlsPreference) -> SetupChoices {
        SetupChoices { tls, php: None }
    }

    fn plan(sample: &SampleMachine, tls: TlsPreference) -> SetupPlan {
        let detection = detect(&sample.machine(), &[]);
        let site = SiteDraft::new(&detection.sites[0], None, &detection, &wish(tls)).unwrap();
        SetupPlan {
            listen: vec!["systemd:web".to_owned()],
            listen_note: "Port 80.".to_owned(),
            listen_tls: vec!["systemd:tls".to_owned()],
            has_package: true,
            sites: vec![site],
        }
    }

    #[test]
    fn a_site_behind_nginx_with_a_certificate_of_certbot() {
        let text = plan(&sample(), TlsPreference::Found).configuration();
        for wanted in [
            "hosts = [\"www.e.com\", \"e.com\"]\n",
            "root = \"/var/www/e\"\n",
            "php = \"unix:/run/php/www.sock\"\n",
            "in_flight = 7\n",
            "request_body = \"64MiB\"\n",
            "tls = { cert = \"/etc/galley/certificates/e.com/fullchain.pem\"",
            "listen_tls = [\"systemd:tls\"]\n",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
        let off = plan(&sample(), TlsPreference::Off);
        assert!(!off.configuration().contains("tls ="));
        assert!(
            off.sites[0]
                .notes
                .iter()
                .any(|note| note.contains("--tls auto"))
        );
        let auto = plan(&sample(), TlsPreference::Auto).configuration();
        assert!(auto.contains("tls = \"auto\"\n"), "{auto}");
    }

    #[test]
    fn the_configuration_of_a_test_is_accepted() {
        let sample = sample();
        let mut plan = plan(&sample, TlsPreference::Off);
        plan.sites[0].root = sample.root().join("var/www/e");
        for text in [
            plan.trial(None),
            plan.configuration()
                .replace("systemd:web", "127.0.0.1:0")
                .replace("/var/log/galley", &sample.root().display().to_string()),
        ] {
            let loaded = galley_config::from_text("setup.toml", &text);
            assert!(loaded.is_ok(), "{}\n{text}", loaded.err().unwrap());
        }
    }

    #[test]
    fn a_wordpress_in_a_url_path_or_without_php_is_rejected() {
        let sample = sample();
        sample.write(
            "var/www/e/wp-config.php",
            "<?php define('WP_HOME', 'https://e.com/blog/');",
        );
        let detection = detect(&sample.machine(), &[]);
        let refused = SiteDraft::new(
            &detection.sites[0],
            None,
            &detection,
            &wish(TlsPreference::Off),
        );
        assert!(refused.unwrap_err().contains("`blog`"));
        let bare = SampleMachine::new(&[
            ("var/www/wp-load.php", ""),
            (
                "var/www/wp-config.php",
                "<?php define('WP_HOME', 'http://e.com');",
            ),
        ]);
        let detection = detect(&bare.machine(), &[]);
        let refused = SiteDraft::new(
            &detection.sites[0],
            None,
            &detection,
            &wish(TlsPreference::Off),
        );
        assert!(refused.unwrap_err().contains("php-fpm"));
    }

    #[test]
    fn without_a_web_server_the_pool_of_the_user_counts_before_the_newest() {
        let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
        let sample = SampleMachine::new(&[
            ("etc/passwd", &format!("shop:x:{uid}:1::/:/bin/sh\n")),
            (
                "etc/php/8.4/fpm/pool.d/www.conf",
                "[www]\nuser = www-data\nlisten=9000\n",
            ),
            (
                "etc/php/8.2/fpm/pool.d/shop.conf",
                "[shop]\nuser = shop\nlisten=9001\n",
            ),
            (
                "etc/php/8.3/fpm/pool.d/off.conf",
                "[off]\nuser = shop\nlisten=/run/none.sock\n",
            ),
            ("var/www/wp-load.php", ""),
            ("var/www/wp-content/index.php", ""),
            (
                "var/www/wp-config.php",
                "<?php define('WP_HOME', 'http://e.com');",
            ),
        ]);
        let detection = detect(&sample.machine(), &[]);
        let choose = |php: Option<&str>| {
            let choices = SetupChoices {
                tls: TlsPreference::Off,
                php: php.map(str::to_owned),
            };
            SiteDraft::new(&detection.sites[0], None, &detection, &choices)
                .unwrap()
                .php
        };
        assert_eq!(choose(None), PhpChoice::Fpm("127.0.0.1:9001".to_owned()));
        let named = choose(Some("127.0.0.1:9000"));
        assert_eq!(named, PhpChoice::Fpm("127.0.0.1:9000".to_owned()));
    }

    proptest! {
        #[test]
        fn quoted_strings_are_well_formed(text in "[^\0]{0,40}") {
            let config = format!("[[site]]\nhosts = [\"e.com\"]\nerror_page = {}\n", quoted(&text));
            // Whatever the option names, the file must be well-formed TOML.
            if let Err(wrong) = galley_config::from_text("t.toml", &config) {
                prop_assert!(!wrong.to_string().contains("TOML"), "{wrong}\n{config}");
            }
        }

        #[test]
        fn any_address_is_parsed_without_panic(text in "(?s).{0,60}", tail in "[a-z./:@\\[\\]0-9]{0,30}") {
            let _ = Address::parse(&text);
            let _ = Address::parse(&format!("https://{tail}"));
        }
    }
}
