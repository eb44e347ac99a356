//! One WordPress, and three Galleys that differ in the codings that they send.

use std::{fs, net::SocketAddr, path::Path};

use galley_testkit::{
    FpmOptions, Galley, MariaDb, Options, PhpFpm, Scratch, WordPress, wordpress_from_template,
};
use serde_json::Value;

use super::super::{
    certificate::Certificate,
    pin::{Cores, on_core},
};
use crate::error::CommandError;

/// The running services, which stop in the order of the fields.
pub(super) struct DictionarySite {
    pub(super) servers: Vec<Server>,
    _php: PhpFpm,
    _database: MariaDb,
    pub(super) certificate: Certificate,
    /// The paths of the pages of each kind.
    pub(super) kinds: Vec<(&'static str, Vec<String>)>,
    pub(super) scratch: Scratch,
}

/// A Galley.
pub(super) struct Server {
    /// The coding of a later page.
    pub(super) coding: &'static str,
    pub(super) galley: Galley,
    access_log: std::path::PathBuf,
}

impl DictionarySite {
    pub(super) fn start(binary: &Path, cores: Cores) -> Result<Self, CommandError> {
        eprintln!("dictionary: installs WordPress with the sample shop");
        let scratch = Scratch::new()?;
        let options = Options {
            mu_plugins: vec![("shop.php".to_owned(), SHOP.to_owned())],
            ..Options::default()
        };
        let (database, wordpress) = wordpress_from_template(scratch.path(), &options)?;
        let output = wordpress.php("sample_shop_seed();")?;
        if !output.ends_with("seeded") {
            return Err(format!("the sample shop was not made: {output}").into());
        }
        let kinds = kinds(&wordpress)?;
        let php = PhpFpm::start(&scratch.dir("php")?, &FpmOptions::default())?;
        let certificate = Certificate::create(scratch.path(), HOST)?;
        let mut servers = Vec::new();
        for (coding, options) in CODINGS {
            let dir = scratch.dir(coding)?;
            let access_log = dir.join("access.log");
            let Certificate { file, key, .. } = &certificate;
            let config = format!(
                "[server]\nlisten = [\"127.0.0.1:0\"]\nlisten_tls = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:{}\"\n\
                 [log]\naccess = \"{}\"\n[[site]]\nhosts = [\"{HOST}\"]\nroot = \"{}\"\nphp = \"{}\"\ncron = \"off\"\naudit = false\n\
                 https_redirect = false\ntls = {{ cert = \"{}\", key = \"{}\" }}\ndense_after = 1\n{options}\n",
                dir.join("admin.sock").display(),
                access_log.display(),
                wordpress.root.display(),
                php.address(),
                file.display(),
                key.display(),
            );
            let file = dir.join("galley.toml");
            fs::write(&file, config)?;
            let start = || Galley::start_config(binary, &dir, &file);
            servers.push(Server {
                coding,
                galley: on_core(cores.server, start)??,
                access_log,
            });
        }
        Ok(Self {
            servers,
            _php: php,
            _database: database,
            certificate,
            kinds,
            scratch,
        })
    }

    /// The server with this coding.
    pub(super) fn server(&self, coding: &str) -> Result<&Server, CommandError> {
        let found = self.servers.iter().find(|server| server.coding == coding);
        found.ok_or_else(|| format!("no server sends `{coding}`").into())
    }
}

impl Server {
    pub(super) fn tls_addr(&self) -> Result<SocketAddr, CommandError> {
        let urls = self.galley.urls();
        let addr = urls.iter().find_map(|url| url.strip_prefix("https://"));
        Ok(addr.ok_or("no TLS listener")?.parse()?)
    }

    pub(super) fn url(&self, path: &str) -> Result<String, CommandError> {
        Ok(format!("https://{HOST}:{}{path}", self.tls_addr()?.port()))
    }

    /// The numbers of bytes of the bodies of the dictionaries that it has sent.
    pub(super) fn dictionaries(&self) -> Vec<u64> {
        let log = fs::read_to_string(&self.access_log).unwrap_or_default();
        let lines = log
            .lines()
            .filter(|line| line.contains("GET /galley-dictionary/"));
        // `... "GET /galley-dictionary/HASH HTTP/2" 200 BYTES ...`
        let bytes = lines.filter_map(|line| line.split_once("\" 200 "));
        let bytes = bytes.map(|(_, rest)| rest.split(' ').next());
        bytes.filter_map(|text| text?.parse().ok()).collect()
    }

    /// Bytes of memory of a stored page; the dictionaries count too.
    pub(super) fn bytes_per_page(&self) -> Result<u64, CommandError> {
        let output = self.galley.cli(&["status", "--json"])?;
        let status: Value = serde_json::from_slice(&output.stdout)?;
        let number = |name: &str| status["memory"][name].as_u64();
        let (bytes, entries) = number("bytes")
            .zip(number("entries"))
            .ok_or("the status has no memory")?;
        Ok(bytes / entries.max(1))
    }
}

/// The pages of each kind: posts of the sample site, whose texts differ, and those of the shop, whose texts hardly do.
fn kinds(wordpress: &WordPress) -> Result<Vec<(&'static str, Vec<String>)>, CommandError> {
    let slugs = wordpress.php(&format!(
        "foreach (get_posts(['numberposts' => {PAGES}, 'offset' => 20, 'orderby' => 'ID', 'order' => 'ASC', 'has_password' => false]) as $post) \
         echo $post->post_name, \"\\n\";"
    ))?;
    let posts: Vec<String> = slugs.lines().map(|slug| format!("/{slug}/")).collect();
    if posts.len() != PAGES {
        return Err(format!("not {PAGES} posts: {slugs}").into());
    }
    let numbered = |prefix: &str| (0..PAGES).map(|n| format!("{prefix}{n}/")).collect();
    Ok(vec![
        ("posts of the sample site", posts),
        ("short posts", numbered("/article-")),
        ("products", numbered("/product/item-")),
    ])
}

/// The coding of later pages, and the options of the site.
const CODINGS: [(&str, &str); 3] = [
    ("br", "dictionaries = false\ncompress = [\"br\", \"gzip\"]"),
    (
        "zstd",
        "dictionaries = false\ncompress = [\"zstd\", \"gzip\"]",
    ),
    ("dcz", "dictionaries = true\ncompress = [\"br\", \"gzip\"]"),
];

/// The number of pages of a visit.
pub(super) const PAGES: usize = 8;

/// Browsers resolve this name to the loopback address without DNS.
pub(super) const HOST: &str = "localhost";

const SHOP: &str = include_str!("../../../../testkit/assets/object-cache/shop.php");
