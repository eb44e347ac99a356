//! A running WordPress with the plugin in it, put there by the command that people use.

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

/// Browsers resolve it to this machine by themselves.
pub const HOST: &str = "localhost";

/// For everything that must happen but may take a while on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

static SHARED: LazyLock<Mutex<Stack>> = LazyLock::new(|| Mutex::new(Stack::start()));

/// What several tests share, one at a time: a post that one publishes is named by the pages of others.
pub fn shared() -> MutexGuard<'static, Stack> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_galley"))
}

/// Parts end in the order of their fields.
pub struct Stack {
    pub galley: Galley,
    _fpm: PhpFpm,
    _database: MariaDb,
    pub wordpress: WordPress,
    /// What a browser must be told to take the site's certificate, which nobody has signed.
    pub pin: String,
    /// The access log.
    pub access: PathBuf,
    /// What the installation said.
    pub installed: Value,
    _scratch: Scratch,
}

impl Stack {
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
        let fpm = PhpFpm::start(&scratch.join("upstream"), &fpm).unwrap();
        let dir = scratch.dir("galley").unwrap();
        let config = dir.join("galley.toml");
        let pin = certify(&dir);
        let access = dir.join("access.log");
        let text = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nlisten_tls = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:{}\"\n[cache]\nmemory = \"64MiB\"\n\
             [log]\naccess = \"{}\"\n[[site]]\nhosts = [\"{HOST}\"]\nroot = \"{}\"\nphp = \"{}\"\n\
             https_redirect = false\ntls = {{ cert = \"site.pem\", key = \"site.key\" }}\n",
            dir.join("admin.sock").display(),
            access.display(),
            wordpress.root.display(),
            fpm.address()
        );
        fs::write(&config, text).unwrap();
        let said = install(&wordpress.root, &config);
        let installed: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
        assert!(installed["active"] == true, "{}", words(&said));
        let galley = Galley::start_config(binary(), &dir, &config).unwrap();
        Self {
            galley,
            _fpm: fpm,
            _database: database,
            wordpress,
            pin,
            access,
            installed,
            _scratch: scratch,
        }
    }

    pub fn addr(&self) -> SocketAddr {
        self.galley.addr()
    }

    /// What a browser writes into `Host`.
    pub fn authority(&self) -> String {
        format!("{HOST}:{}", self.addr().port())
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.authority())
    }

    /// The same over TLS.
    pub fn tls_url(&self, path: &str) -> String {
        let urls = self.galley.urls();
        let url = urls.iter().find_map(|url| url.strip_prefix("https://"));
        let addr: SocketAddr = url.expect("a listener for TLS").parse().unwrap();
        format!("https://{HOST}:{}{path}", addr.port())
    }

    /// An anonymous visitor's request.
    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        let request = Request::get(target).host(&self.authority());
        request.send(self.addr()).unwrap()
    }

    /// Asks until the page is in the cache.
    #[track_caller]
    pub fn warm(&self, target: &str) {
        galley_testkit::wait_for(&format!("{target} to be cached"), TIMEOUT, || {
            self.get(target).is_hit()
        });
    }

    /// A browser of the logged-in administrator.
    pub fn admin(&self) -> Browser {
        self.person(&self.wordpress.user)
    }

    pub fn person(&self, user: &str) -> Browser {
        let mut browser = Browser::new(self.addr(), &self.authority());
        browser.login(user, &self.wordpress.password).unwrap();
        browser
    }

    #[track_caller]
    pub fn php(&self, code: &str) -> String {
        self.wordpress
            .php(code)
            .unwrap_or_else(|trouble| panic!("{trouble}\n{code}"))
    }

    /// Publishes a post whose slug is its title, and returns its number.
    pub fn publish(&self, slug: &str) -> u32 {
        let code = format!(
            "echo wp_insert_post(['post_name' => '{slug}', 'post_title' => '{slug}', 'post_content' => \
             '<!-- wp:paragraph --><p>Text of {slug}.</p><!-- /wp:paragraph -->', 'post_status' => 'publish', 'post_author' => 1]);"
        );
        self.php(&code).trim().parse().unwrap()
    }

    /// What the server says of an address, asked without a cookie.
    pub fn why(&self, path: &str) -> Value {
        let output = self
            .galley
            .cli(&["why", "--json", &self.url(path)])
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", words(&output)))
    }
}

/// Checks an answer that is not needed any further.
pub trait Is {
    /// Panics with the answer when it has another status.
    fn is(&self, status: u16);
}

impl Is for Response {
    #[track_caller]
    fn is(&self, status: u16) {
        assert_eq!(self.status, status, "{}", self.beginning());
    }
}

/// `galley plugin install`.
pub fn install(root: &Path, config: &Path) -> Output {
    let mut command = Command::new(binary());
    command.args(["plugin", "install", "--json", "--config"]);
    command.arg(config).arg(root).output().unwrap()
}

/// What a command said.
pub fn words(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    format!("{}\n{out}{err}", output.status)
}

/// What stands between two texts.
#[track_caller]
pub fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let found = text.split_once(before);
    let (_, rest) = found.unwrap_or_else(|| panic!("no `{before}` in\n{text}"));
    rest.split_once(after).unwrap().0
}

/// Writes a certificate for the host and its key; gives the key's pin (RFC 7469 section 2.4).
fn certify(dir: &Path) -> String {
    let made = generate_simple_self_signed([HOST.to_owned()]).unwrap();
    let CertifiedKey { cert, signing_key } = made;
    let key = dir.join("site.key");
    fs::write(dir.join("site.pem"), cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    STANDARD.encode(Sha256::digest(signing_key.subject_public_key_info()))
}
