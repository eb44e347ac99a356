//! A running WordPress behind Galley, with the plugin installed by `galley plugin install`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, net::SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use galley_testkit::client::{Browser, Request, Response};
use galley_testkit::{
    FpmOptions, Galley, MariaDb, Options, PhpFpm, Scratch, WordPress, wordpress_from_template,
};
use rcgen::{CertifiedKey, PublicKeyData as _, generate_simple_self_signed};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Browsers resolve this name to the loopback address without DNS.
pub const HOST: &str = "localhost";

/// Deadline for events that must happen but may take long on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

static SHARED: LazyLock<Mutex<PluginSite>> = LazyLock::new(|| Mutex::new(PluginSite::start()));

/// Locks the shared site for one test. Tests cannot run concurrently, because a published post appears on pages of other tests.
pub fn shared() -> MutexGuard<'static, PluginSite> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_galley"))
}

/// A running site. The processes stop in the order of the fields.
pub struct PluginSite {
    pub galley: Galley,
    /// Generates all pages but those of wp-admin.
    pub fpm: PhpFpm,
    _admin_fpm: PhpFpm,
    pub database: MariaDb,
    pub wordpress: WordPress,
    /// The pin with which a browser accepts the site's self-signed certificate.
    pub pin: String,
    pub access_log: PathBuf,
    /// The JSON output of `galley plugin install`.
    pub install_report: Value,
    _scratch: Scratch,
}

impl PluginSite {
    pub fn start() -> Self {
        let scratch = Scratch::new().unwrap();
        let options = Options {
            mu_plugins: vec![(
                "visits.php".to_owned(),
                include_str!("visits.php").to_owned(),
            )],
            ..Options::default()
        };
        let (database, wordpress) = wordpress_from_template(scratch.path(), &options).unwrap();
        let fpm = FpmOptions {
            workers: 5,
            ..FpmOptions::default()
        };
        let admin_fpm = PhpFpm::start(&scratch.join("admin-upstream"), &fpm).unwrap();
        let fpm = PhpFpm::start(&scratch.join("upstream"), &fpm).unwrap();
        let dir = scratch.dir("galley").unwrap();
        let config = dir.join("galley.toml");
        let pin = write_certificate(&dir);
        let access_log = dir.join("access.log");
        let text = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nlisten_tls = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:{}\"\n[cache]\nmemory = \"64MiB\"\n\
             [log]\naccess = \"{}\"\n[[site]]\nhosts = [\"{HOST}\"]\nroot = \"{}\"\nphp = \"{}\"\n\
             https_redirect = false\ncrawl_shield = false\ntls = {{ cert = \"site.pem\", key = \"site.key\" }}\n\
             [[site.rule]]\npath = \"/wp-admin/*\"\nphp = \"{}\"\n",
            dir.join("admin.sock").display(),
            access_log.display(),
            wordpress.root.display(),
            fpm.address(),
            admin_fpm.address()
        );
        fs::write(&config, text).unwrap();
        let output = install(&wordpress.root, &config);
        let install_report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        assert!(install_report["active"] == true, "{}", output_text(&output));
        let galley = Galley::start_config(binary(), &dir, &config).unwrap();
        Self {
            galley,
            fpm,
            _admin_fpm: admin_fpm,
            database,
            wordpress,
            pin,
            access_log,
            install_report,
            _scratch: scratch,
        }
    }

    pub fn addr(&self) -> SocketAddr {
        self.galley.addr()
    }

    /// Returns the `Host` that a browser sends.
    pub fn authority(&self) -> String {
        format!("{HOST}:{}", self.addr().port())
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.authority())
    }

    /// Returns the URL of a path over TLS.
    pub fn tls_url(&self, path: &str) -> String {
        let urls = self.galley.urls();
        let url = urls.iter().find_map(|url| url.strip_prefix("https://"));
        let addr: SocketAddr = url.expect("no TLS listener").parse().unwrap();
        format!("https://{HOST}:{}{path}", addr.port())
    }

    /// Sends an anonymous request.
    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        let request = Request::get(target).host(&self.authority());
        request.send(self.addr()).unwrap()
    }

    /// Requests the page until it is a hit.
    #[track_caller]
    pub fn wait_until_stored(&self, target: &str) {
        galley_testkit::wait_for(&format!("{target} to be cached"), TIMEOUT, || {
            self.get(target).is_hit()
        });
    }

    /// Returns a browser of the logged-in administrator.
    pub fn admin(&self) -> Browser {
        self.user(&self.wordpress.user)
    }

    /// Returns a browser of a logged-in user.
    pub fn user(&self, user: &str) -> Browser {
        let mut browser = Browser::new(self.addr(), &self.authority());
        browser.login(user, &self.wordpress.password).unwrap();
        browser
    }

    #[track_caller]
    pub fn php(&self, code: &str) -> String {
        self.wordpress
            .php(code)
            .unwrap_or_else(|error| panic!("{error}\n{code}"))
    }

    /// Publishes a post with the slug as its title, and returns its ID.
    pub fn publish(&self, slug: &str) -> u32 {
        let code = format!(
            "echo wp_insert_post(['post_name' => '{slug}', 'post_title' => '{slug}', 'post_content' => \
             '<!-- wp:paragraph --><p>Text of {slug}.</p><!-- /wp:paragraph -->', 'post_status' => 'publish', 'post_author' => 1]);"
        );
        self.php(&code).trim().parse().unwrap()
    }

    /// Returns the labels of the latest purges, the newest first; null: none.
    pub fn purge_labels(&self) -> Vec<Value> {
        let socket = self.galley.admin().unwrap();
        let output = Command::new("curl")
            .args([
                "--silent",
                "--unix-socket",
                socket.strip_prefix("unix:").unwrap(),
            ])
            .arg("http://galley/purges")
            .output()
            .unwrap();
        let all: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", output_text(&output)));
        let purges = all["sites"][0]["purges"].as_array().unwrap();
        purges.iter().map(|purge| purge["label"].clone()).collect()
    }

    /// Returns the JSON output of `galley why` for a request without cookies.
    pub fn why(&self, path: &str) -> Value {
        let output = self
            .galley
            .cli(&["why", "--json", &self.url(path)])
            .unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", output_text(&output)))
    }
}

/// Asserts the status of a response that the test does not use further.
pub trait AssertStatus {
    fn assert_status(&self, status: u16);
}

impl AssertStatus for Response {
    #[track_caller]
    fn assert_status(&self, status: u16) {
        assert_eq!(self.status, status, "{}", self.excerpt());
    }
}

/// Runs `galley plugin install`.
pub fn install(root: &Path, config: &Path) -> Output {
    let mut command = Command::new(binary());
    command.args(["plugin", "install", "--json", "--config"]);
    command.arg(config).arg(root).output().unwrap()
}

/// Returns the exit status and the output of a command.
pub fn output_text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    format!("{}\n{stdout}{stderr}", output.status)
}

/// Returns the text between two delimiters.
#[track_caller]
pub fn text_between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let found = text.split_once(before);
    let (_, rest) = found.unwrap_or_else(|| panic!("no `{before}` in\n{text}"));
    rest.split_once(after).unwrap().0
}

/// Writes a certificate for the host and its key, and returns the key's pin (RFC 7469 section 2.4).
fn write_certificate(dir: &Path) -> String {
    let generated = generate_simple_self_signed([HOST.to_owned()]).unwrap();
    let CertifiedKey { cert, signing_key } = generated;
    let key = dir.join("site.key");
    fs::write(dir.join("site.pem"), cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    STANDARD.encode(Sha256::digest(signing_key.subject_public_key_info()))
}
