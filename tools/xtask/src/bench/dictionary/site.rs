//! One WordPress, and Galleys that differ in their options.

use std::{
    fmt::Write as _,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

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
    php: PhpFpm,
    _database: MariaDb,
    pub(super) certificate: Certificate,
    /// The paths of the pages of each kind.
    pub(super) kinds: Vec<(&'static str, Vec<String>)>,
    root: PathBuf,
    binary: PathBuf,
    cores: Cores,
    pub(super) scratch: Scratch,
}

/// A Galley.
pub(super) struct Server {
    /// The coding of a later page.
    pub(super) coding: &'static str,
    pub(super) galley: Galley,
    access_log: PathBuf,
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
        Ok(Self {
            php: PhpFpm::start(&scratch.dir("php")?, &FpmOptions::default())?,
            _database: database,
            certificate: Certificate::create(
                scratch.path(),
                &[&[HOST][..], &HIT_SITES.map(|site| site.host)].concat(),
            )?,
            kinds: kinds(&wordpress)?,
            root: wordpress.root,
            binary: binary.to_owned(),
            cores,
            scratch,
        })
    }

    /// Starts a Galley with these options of the site. `name` is that of its folder.
    pub(super) fn server(
        &self,
        name: &str,
        coding: &'static str,
        options: &str,
    ) -> Result<Server, CommandError> {
        self.start_sites(name, coding, &[(HOST, options)])
    }

    /// Starts a Galley with the sites of `HIT_SITES`.
    pub(super) fn hit_server(&self, name: &str) -> Result<Server, CommandError> {
        self.start_sites(name, "br", &HIT_SITES.map(|site| (site.host, site.options)))
    }

    fn start_sites(
        &self,
        name: &str,
        coding: &'static str,
        sites: &[(&str, &str)],
    ) -> Result<Server, CommandError> {
        let dir = self.scratch.dir(name)?;
        let access_log = dir.join("access.log");
        let Certificate { file, key, .. } = &self.certificate;
        let mut config = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nlisten_tls = [\"127.0.0.1:0\"]\nidle_timeout = \"1h\"\n[admin]\nlisten = \"unix:{}\"\n\
             [log]\naccess = \"{}\"\n",
            dir.join("admin.sock").display(),
            access_log.display(),
        );
        for (host, options) in sites {
            let _ = write!(
                config,
                "[[site]]\nhosts = [\"{host}\"]\nroot = \"{}\"\nphp = \"{}\"\ncron = \"off\"\naudit = false\n\
                 https_redirect = false\ntls = {{ cert = \"{}\", key = \"{}\" }}\ndense_after = 1\n{options}\n",
                self.root.display(),
                self.php.address(),
                file.display(),
                key.display(),
            );
        }
        let file = dir.join("galley.toml");
        fs::write(&file, config)?;
        let start = || Galley::start_config(&self.binary, &dir, &file);
        Ok(Server {
            coding,
            galley: on_core(self.cores.server, start)??,
            access_log,
        })
    }

    /// Requests the pages of a host until each has all its forms.
    pub(super) fn fill(
        &self,
        server: &Server,
        host: &str,
        coding: &str,
        paths: &[String],
    ) -> Result<(), CommandError> {
        let has_dictionary = coding == "dcz";
        let coding = if has_dictionary { "br" } else { coding };
        let coding = format!("content-encoding: {coding}\r\n");
        let urls = paths.iter().map(|path| server.url_of(host, path));
        let urls: Vec<String> = urls.collect::<Result<_, _>>()?;
        let deadline = Instant::now() + TIMEOUT;
        let mut count = 0;
        loop {
            let heads = self.heads(&urls, &[])?;
            count += 1;
            let is_ready = |head: &&str| {
                head.contains(&coding) && head.contains(DICTIONARIES) == has_dictionary
            };
            let ready = heads.split("\r\n\r\n").filter(is_ready).count();
            if ready == paths.len() && count >= MIN_FILLS {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(
                    format!("{ready} of {} pages have all forms: {heads}", paths.len()).into(),
                );
            }
            thread::sleep(PAUSE);
        }
    }

    /// The heads of the responses to GET requests with these fields, in lower case.
    pub(super) fn heads(&self, urls: &[String], fields: &[&str]) -> Result<String, CommandError> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "60"])
            .args(["--dump-header", "-", "--cacert"])
            .arg(&self.certificate.file)
            .args(["--connect-to", "::127.0.0.1:"])
            .args(["--header", "Accept-Encoding: gzip, deflate, br, zstd"]);
        for field in fields {
            curl.args(["--header", field]);
        }
        for url in urls {
            curl.args(["--output", "/dev/null"]).arg(url);
        }
        let output = curl.output()?;
        if !output.status.success() {
            return Err(format!("curl: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(String::from_utf8_lossy(&output.stdout).to_ascii_lowercase())
    }
}

impl Server {
    pub(super) fn tls_addr(&self) -> Result<SocketAddr, CommandError> {
        let urls = self.galley.urls();
        let addr = urls.iter().find_map(|url| url.strip_prefix("https://"));
        Ok(addr.ok_or("no TLS listener")?.parse()?)
    }

    pub(super) fn url(&self, path: &str) -> Result<String, CommandError> {
        self.url_of(HOST, path)
    }

    pub(super) fn url_of(&self, host: &str, path: &str) -> Result<String, CommandError> {
        Ok(format!("https://{host}:{}{path}", self.tls_addr()?.port()))
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

/// Options of a site with `br`, without and with dictionaries, and with `zstd`.
pub(super) const BR: &str = "dictionaries = false\ncompress = [\"br\", \"gzip\"]";
pub(super) const ZSTD: &str = "dictionaries = false\ncompress = [\"zstd\", \"gzip\"]";
pub(super) const DCZ: &str = "dictionaries = true\ncompress = [\"br\", \"gzip\"]";

/// A site of the measurement of hits.
#[derive(Clone, Copy)]
pub(super) struct HitSite {
    pub(super) host: &'static str,
    /// That of the stored pages.
    pub(super) coding: &'static str,
    options: &'static str,
}

/// The sites of one process for the measurement of hits: two have the same options, and show what is noise.
pub(super) const HIT_SITES: [HitSite; 4] = [
    HitSite {
        host: "off.test",
        coding: "br",
        options: BR,
    },
    HitSite {
        host: "off-too.test",
        coding: "br",
        options: BR,
    },
    HitSite {
        host: "on.test",
        coding: "dcz",
        options: DCZ,
    },
    HitSite {
        host: "zstd.test",
        coding: "zstd",
        options: ZSTD,
    },
];

/// The folder of dictionaries.
pub(super) const DICTIONARIES: &str = "/galley-dictionary/";

/// The number of pages of a visit.
pub(super) const PAGES: usize = 8;

/// Browsers resolve this name to the loopback address without DNS.
pub(super) const HOST: &str = "localhost";

/// Requests of each page, so that it is compressed at the highest level.
const MIN_FILLS: usize = 4;
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
pub(super) const PAUSE: Duration = Duration::from_millis(100);

const SHOP: &str = include_str!("../../../../testkit/assets/object-cache/shop.php");
