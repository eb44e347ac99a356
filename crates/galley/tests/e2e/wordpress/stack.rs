//! A running stack of database, WordPress, upstream and Galley, with helpers that send requests to it.
//!
//! The shared stacks are statics and are never dropped. The test kit terminates their processes when the test program exits.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use galley_testkit::client::{Browser, Connection, CookieJar, Request, Response, login};
use galley_testkit::{
    Apache, ApacheOptions, FpmOptions, Galley, MariaDb, Options, PhpFpm, Scratch, WordPress,
    wait_for, wordpress_from_template,
};

/// The site of most tests. Its pages are fresh for one hour, like those of the sites below.
pub const HOST: &str = "wp.test";

/// A site with `device_variants`.
pub const DEVICE_VARIANTS_HOST: &str = "phones.test";

/// A site for purges of a whole site.
pub const SITE_PURGE_HOST: &str = "whole.test";

/// A site whose `admin_allow` contains only 127.0.0.1.
pub const ADMIN_ALLOW_HOST: &str = "guarded.test";

/// A site with rules that deny some paths to 127.0.0.3.
pub const DENY_RULES_HOST: &str = "closed.test";

/// A site without options, for requests that fill the cache and purge pages by submitting forms.
pub const BASELINE_HOST: &str = "loud.test";

/// A site with `hide_authors`.
pub const HIDE_AUTHORS_HOST: &str = "quiet.test";

/// Deadline for events that must happen but may take long on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub const STORED: &str = "galley; fwd=uri-miss; stored";
pub const HIT: &str = "galley; hit";

/// Asserts that a page was fetched again after a purge. `Cache-Status` does not mention the purge if the entry was already
/// removed in the background.
#[track_caller]
pub fn assert_refetched(response: &Response) {
    if response.cache_status() != STORED {
        assert_cache_status(response, "galley; fwd=stale; stored; detail=purged");
    }
}

pub static FPM: LazyLock<WordPressStack> =
    LazyLock::new(|| WordPressStack::start(UpstreamKind::Fpm, &StackOptions::shared()));
pub static APACHE: LazyLock<WordPressStack> =
    LazyLock::new(|| WordPressStack::start(UpstreamKind::Apache, &StackOptions::shared()));

/// The kind of upstream that generates the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamKind {
    /// PHP-FPM on a Unix socket. Galley rewrites URLs.
    Fpm,
    /// Apache with `mod_php`. Its .htaccess rewrites URLs.
    Apache,
}

/// The configuration of a stack.
pub struct StackOptions {
    pub wordpress: Options,
    /// Host and additional configuration lines of each site, tables last.
    pub sites: Vec<(&'static str, String)>,
    /// The token of an admin interface on a TCP port. Without one, the admin interface listens on a Unix socket.
    pub admin_token: Option<&'static str>,
    /// Whether each site also serves all subdomains of its host.
    pub has_subdomains: bool,
}

impl StackOptions {
    fn shared() -> Self {
        let phones = format!("device_variants = true\n{HOUR}");
        let rule =
            |path: &str| format!("[[site.rule]]\npath = \"{path}\"\ndeny = [\"127.0.0.3\"]\n");
        let closed = format!("{HOUR}\n{}{}", rule("/internal/*"), rule("/wp-json/*"));
        let guarded = format!("admin_allow = [\"127.0.0.1\"]\n{HOUR}");
        Self::new([
            (HOST, HOUR.to_owned()),
            (DEVICE_VARIANTS_HOST, phones),
            (ADMIN_ALLOW_HOST, guarded),
            (DENY_RULES_HOST, closed),
            (BASELINE_HOST, HOUR.to_owned()),
            (HIDE_AUTHORS_HOST, format!("hide_authors = true\n{HOUR}")),
            (SITE_PURGE_HOST, HOUR.to_owned()),
        ])
    }

    /// Options for the sample site under the given hosts.
    pub fn new(sites: impl Into<Vec<(&'static str, String)>>) -> Self {
        let mu_plugins = vec![("lab.php".to_owned(), include_str!("lab.php").to_owned())];
        Self {
            wordpress: Options {
                mu_plugins,
                ..Options::default()
            },
            sites: sites.into(),
            admin_token: None,
            has_subdomains: false,
        }
    }
}

/// A lifetime longer than any test.
pub const HOUR: &str = "[site.ttl]\ndefault = \"1h\"";

/// The running upstream.
pub enum Upstream {
    Fpm(PhpFpm),
    Apache(Apache),
}

impl Upstream {
    fn start(kind: UpstreamKind, scratch: &Scratch, wordpress: &WordPress) -> Self {
        let dir = scratch.join("upstream");
        if kind == UpstreamKind::Fpm {
            let options = FpmOptions {
                workers: 5,
                ..FpmOptions::default()
            };
            return Self::Fpm(PhpFpm::start(&dir, &options).unwrap());
        }
        let sessions = make_world_writable(scratch.dir("sessions").unwrap());
        let extra = format!(
            "php_admin_value session.save_path \"{}\"",
            sessions.display()
        );
        let options = ApacheOptions {
            extra,
            ..ApacheOptions::default()
        };
        Self::Apache(Apache::start(&dir, &wordpress.root, &options).unwrap())
    }

    fn config_line(&self) -> String {
        match self {
            Self::Fpm(fpm) => format!("php = \"{}\"", fpm.address()),
            Self::Apache(apache) => format!("upstream = [\"{}\"]", apache.url()),
        }
    }

    pub fn kill(&mut self) {
        match self {
            Self::Fpm(fpm) => fpm.kill(),
            Self::Apache(apache) => apache.kill(),
        }
    }

    pub fn restart(&mut self) {
        match self {
            Self::Fpm(fpm) => fpm.restart(),
            Self::Apache(apache) => apache.restart(),
        }
        .unwrap();
    }
}

/// A running WordPress with Galley in front of it. The processes stop in the order of the fields.
pub struct WordPressStack {
    pub galley: Galley,
    pub upstream: Upstream,
    pub database: MariaDb,
    pub wordpress: WordPress,
    pub scratch: Scratch,
    /// The host of requests that name none.
    pub host: &'static str,
    jars: [OnceLock<CookieJar>; 2],
}

impl WordPressStack {
    pub fn start(kind: UpstreamKind, options: &StackOptions) -> Self {
        let scratch = Scratch::new().unwrap();
        make_world_writable(scratch.dir("notes").unwrap());
        let (database, wordpress) =
            wordpress_from_template(scratch.path(), &options.wordpress).unwrap();
        let upstream = Upstream::start(kind, &scratch, &wordpress);
        let admin = options.admin_token.map_or_else(
            || format!("listen = \"unix:{}\"", scratch.join("admin.sock").display()),
            |token| {
                let file = scratch.write("admin.token", token).unwrap();
                fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
                format!(
                    "listen = \"127.0.0.1:0\"\ntoken_file = \"{}\"",
                    file.display()
                )
            },
        );
        let mut config = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nlimit_exempt = [\"127.0.0.1\"]\n[admin]\n{admin}\n[cache]\nmemory = \"64MiB\"\n"
        );
        for (host, lines) in &options.sites {
            let subdomains = if options.has_subdomains {
                format!(", \"*.{host}\"")
            } else {
                String::new()
            };
            let _ = write!(
                config,
                "[[site]]\nhosts = [\"{host}\"{subdomains}]\nroot = \"{}\"\n{}\n{lines}\n",
                wordpress.root.display(),
                upstream.config_line()
            );
        }
        let galley = Galley::start(&scratch.join("galley"), &config).unwrap();
        Self {
            galley,
            upstream,
            database,
            wordpress,
            scratch,
            host: options.sites[0].0,
            jars: [OnceLock::new(), OnceLock::new()],
        }
    }

    pub fn addr(&self) -> SocketAddr {
        self.galley.addr()
    }

    /// Sends a request on a new connection. The default host is the one of the first site.
    #[track_caller]
    pub fn send(&self, request: Request) -> Response {
        self.with_default_host(request)
            .send(self.addr())
            .unwrap_or_else(|error| panic!("{error}\n{}", self.galley.log()))
    }

    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        self.send(Request::get(target))
    }

    /// Sends a request to the site of `host`.
    #[track_caller]
    pub fn get_from(&self, host: &str, target: &str) -> Response {
        self.send(Request::get(target).host(host))
    }

    /// Adds the first site's host unless the request has one.
    pub fn with_default_host(&self, request: Request) -> Request {
        let is_host = |(name, _): &(String, Vec<u8>)| name.eq_ignore_ascii_case("host");
        if request.fields.iter().any(is_host) {
            request
        } else {
            request.host(self.host)
        }
    }

    pub fn connect(&self) -> Connection {
        Connection::within(self.addr(), TIMEOUT).unwrap()
    }

    /// Returns a browser without cookies.
    pub fn visitor(&self) -> Browser {
        Browser::new(self.addr(), self.host)
    }

    /// Returns a browser with the cookies of a logged-in editor.
    pub fn editor(&self) -> Browser {
        self.logged_in(0, "editor")
    }

    /// Returns a browser with the cookies of the logged-in administrator.
    pub fn admin(&self) -> Browser {
        self.logged_in(1, &self.wordpress.user)
    }

    fn logged_in(&self, jar: usize, user: &str) -> Browser {
        let password = &self.wordpress.password;
        let jar =
            self.jars[jar].get_or_init(|| login(self.addr(), self.host, user, password).unwrap());
        let mut browser = self.visitor();
        browser.jar = jar.clone();
        browser
    }

    /// Runs PHP code inside WordPress, without a request to Galley.
    #[track_caller]
    pub fn php(&self, code: &str) -> String {
        self.wordpress
            .php(code)
            .unwrap_or_else(|error| panic!("{error}\n{code}"))
    }

    /// Publishes a post per slug, with the slug as title and `Text of <slug>.` as content, and returns the IDs.
    #[track_caller]
    pub fn publish<const N: usize>(&self, slugs: [&str; N]) -> [u32; N] {
        let code = format!(
            "foreach (explode(' ', '{}') as $slug) {{ echo wp_insert_post(['post_name' => $slug, 'post_title' => $slug, \
             'post_content' => \"Text of $slug.\", 'post_status' => 'publish', 'post_author' => 1]), ' '; }}",
            slugs.join(" ")
        );
        let output = self.php(&code);
        let ids: Vec<u32> = output
            .split_whitespace()
            .map(|id| id.parse().unwrap())
            .collect();
        ids.try_into().unwrap()
    }

    /// Changes a post's content in PHP, without a request to Galley.
    pub fn update_post(&self, id: u32, text: &str) {
        self.php(&format!(
            "wp_update_post(['ID' => {id}, 'post_content' => '{text}']);"
        ));
    }

    /// Runs `galley purge` and asserts that it succeeds.
    #[track_caller]
    pub fn purge(&self, arguments: &[&str]) {
        let output = self.galley.cli(&[&["purge"], arguments].concat()).unwrap();
        assert!(
            output.status.success(),
            "purge {arguments:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn note_path(&self, kind: &str, path: &str) -> PathBuf {
        self.scratch
            .join("notes")
            .join(format!("{kind}{}", path.replace('/', "_")))
    }

    /// Writes a file that controls how PHP handles a path; see lab.php.
    pub fn set_note(&self, kind: &str, path: &str, text: &str) {
        // Written atomically: PHP may read it at any time.
        let new = self.scratch.join(format!("new{}", path.replace('/', "_")));
        fs::write(&new, text).unwrap();
        fs::rename(new, self.note_path(kind, path)).unwrap();
    }

    pub fn remove_note(&self, kind: &str, path: &str) {
        fs::remove_file(self.note_path(kind, path)).unwrap();
    }

    /// Waits until PHP has written the file.
    #[track_caller]
    pub fn wait_for_note(&self, kind: &str, path: &str) {
        wait_for(&format!("PHP to be {kind} at {path}"), TIMEOUT, || {
            self.note_path(kind, path).exists()
        });
    }

    /// Returns how often PHP ran for a path, with any query and host.
    pub fn php_runs(&self, path: &str) -> u32 {
        fs::read_to_string(self.note_path("runs", path))
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    }
}

/// Returns the number of the PHP run that generated a response, or 0 if PHP did not generate it.
pub fn php_run(response: &Response) -> u32 {
    response
        .field("x-lab-run")
        .map_or(0, |run| run.parse().unwrap())
}

/// Asserts the `Cache-Status` of a response.
#[track_caller]
pub fn assert_cache_status(response: &Response, expected: &str) {
    assert_eq!(response.cache_status(), expected, "{}", response.excerpt());
}

/// Asserts that a body contains a text. The message shows the relevant parts of the page.
#[track_caller]
pub fn assert_text(response: &Response, expected: &str) {
    assert!(
        response.text().contains(expected),
        "no `{expected}` in\n{}",
        summary(response)
    );
}

/// Asserts that a body does not contain a text.
#[track_caller]
pub fn assert_no_text(response: &Response, unexpected: &str) {
    assert!(
        !response.text().contains(unexpected),
        "`{unexpected}` in\n{}",
        summary(response)
    );
}

/// Returns the head, title, beginning of the content, and the request data that the page shows.
pub fn summary(response: &Response) -> String {
    let text = response.text();
    let head = String::from_utf8_lossy(&response.raw);
    let excerpt = |from: &str, length: usize| {
        let found = text.find(from).map(|at| &text[at..]).unwrap_or_default();
        found.chars().take(length).collect::<String>()
    };
    format!(
        "{}\n\n{}\n...{}\n...{}\n...{}",
        head.split("\r\n\r\n").next().unwrap_or_default(),
        text.chars().take(200).collect::<String>(),
        excerpt("<title>", 200),
        excerpt("<main", 1500),
        excerpt("<!-- lab", 2000)
    )
}

/// Returns the text between two delimiters.
#[track_caller]
pub fn text_between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| {
        panic!(
            "no `{before}` in\n{}",
            text.chars().take(3000).collect::<String>()
        )
    });
    rest.split_once(after)
        .unwrap_or_else(|| panic!("no `{after}` after `{before}`"))
        .0
}

fn make_world_writable(dir: PathBuf) -> PathBuf {
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o1777)).unwrap();
    dir
}
