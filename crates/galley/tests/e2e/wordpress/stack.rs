//! A running stack: database, WordPress, its upstream, the server; and a few ways of asking.
//!
//! The shared stacks are statics, which nobody drops: the kit's watchers end their processes with the test program.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use galley_testkit::client::{Browser, Connection, Jar, Request, Response, login};
use galley_testkit::{
    Apache, ApacheOptions, FpmOptions, Galley, MariaDb, Options, PhpFpm, Scratch, WordPress,
    wait_for, wordpress_from_template,
};

/// The site of most tests. Its pages stay fresh for an hour.
pub const HOST: &str = "wp.test";

/// The same with a copy of each page for phones.
pub const PHONES: &str = "phones.test";

/// The same, for orders that concern all of a site.
pub const WHOLE: &str = "whole.test";

/// The same, with an administration for 127.0.0.1 alone.
pub const GUARDED: &str = "guarded.test";

/// The same, with rules that close addresses to 127.0.0.3.
pub const CLOSED: &str = "closed.test";

/// The same, for requests that fill the cache and purge it by forms.
pub const LOUD: &str = "loud.test";

/// The same, with `hide_authors`.
pub const QUIET: &str = "quiet.test";

/// For everything that must happen but may take a while on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub const STORED: &str = "galley; fwd=uri-miss; stored";
pub const HIT: &str = "galley; hit";

/// A page that was fetched after a purge. Purged entries are also removed in the background, and then nothing tells of them.
#[track_caller]
pub fn assert_refetched(answer: &Response) {
    if answer.cache_status() != STORED {
        assert_way(answer, "galley; fwd=stale; stored; detail=purged");
    }
}

pub static FPM: LazyLock<Stack> = LazyLock::new(|| Stack::start(Kind::Fpm, &SiteBuilder::shared()));
pub static APACHE: LazyLock<Stack> =
    LazyLock::new(|| Stack::start(Kind::Apache, &SiteBuilder::shared()));

/// What generates the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PHP-FPM on a unix socket; the server is the rewriter.
    Fpm,
    /// Apache with `mod_php`; its .htaccess rewrites.
    Apache,
}

/// What a stack is made of.
pub struct SiteBuilder {
    pub options: Options,
    /// Sites: host and further lines, tables last.
    pub sites: Vec<(&'static str, String)>,
    /// The token of an admin interface on a port; none: a unix socket that only this user may use.
    pub token: Option<&'static str>,
    /// Whether each site has all names below its host, too.
    pub has_names_below: bool,
}

impl SiteBuilder {
    fn shared() -> Self {
        let phones = format!("device_variants = true\n{HOUR}");
        let rule =
            |path: &str| format!("[[site.rule]]\npath = \"{path}\"\ndeny = [\"127.0.0.3\"]\n");
        let closed = format!("{HOUR}\n{}{}", rule("/internal/*"), rule("/wp-json/*"));
        let guarded = format!("admin_allow = [\"127.0.0.1\"]\n{HOUR}");
        Self::new([
            (HOST, HOUR.to_owned()),
            (PHONES, phones),
            (GUARDED, guarded),
            (CLOSED, closed),
            (LOUD, HOUR.to_owned()),
            (QUIET, format!("hide_authors = true\n{HOUR}")),
            (WHOLE, HOUR.to_owned()),
        ])
    }

    /// The sample site, under these hosts.
    pub fn new(sites: impl Into<Vec<(&'static str, String)>>) -> Self {
        let mu_plugins = vec![("lab.php".to_owned(), include_str!("lab.php").to_owned())];
        Self {
            options: Options {
                mu_plugins,
                ..Options::default()
            },
            sites: sites.into(),
            token: None,
            has_names_below: false,
        }
    }
}

/// Lifetimes that no test outlives.
pub const HOUR: &str = "[site.ttl]\ndefault = \"1h\"";

/// What generates the pages.
pub enum Upstream {
    Fpm(PhpFpm),
    Apache(Apache),
}

impl Upstream {
    fn start(kind: Kind, scratch: &Scratch, wordpress: &WordPress) -> Self {
        let dir = scratch.join("upstream");
        if kind == Kind::Fpm {
            let options = FpmOptions {
                workers: 5,
                ..FpmOptions::default()
            };
            return Self::Fpm(PhpFpm::start(&dir, &options).unwrap());
        }
        let sessions = open_to_all(scratch.dir("sessions").unwrap());
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

    fn line(&self) -> String {
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

/// A running WordPress with the server in front. Parts end in the order of their fields.
pub struct Stack {
    pub galley: Galley,
    pub upstream: Upstream,
    pub database: MariaDb,
    pub wordpress: WordPress,
    pub scratch: Scratch,
    /// The host that is asked where nothing else is said.
    pub host: &'static str,
    jars: [OnceLock<Jar>; 2],
}

impl Stack {
    pub fn start(kind: Kind, plan: &SiteBuilder) -> Self {
        let scratch = Scratch::new().unwrap();
        open_to_all(scratch.dir("notes").unwrap());
        let (database, wordpress) = wordpress_from_template(scratch.path(), &plan.options).unwrap();
        let upstream = Upstream::start(kind, &scratch, &wordpress);
        let admin = plan.token.map_or_else(
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
        for (host, lines) in &plan.sites {
            let below = if plan.has_names_below {
                format!(", \"*.{host}\"")
            } else {
                String::new()
            };
            let _ = write!(
                config,
                "[[site]]\nhosts = [\"{host}\"{below}]\nroot = \"{}\"\n{}\n{lines}\n",
                wordpress.root.display(),
                upstream.line()
            );
        }
        let galley = Galley::start(&scratch.join("galley"), &config).unwrap();
        Self {
            galley,
            upstream,
            database,
            wordpress,
            scratch,
            host: plan.sites[0].0,
            jars: [OnceLock::new(), OnceLock::new()],
        }
    }

    pub fn addr(&self) -> SocketAddr {
        self.galley.addr()
    }

    /// Asks on a connection of its own; the first site's host is named unless the request names one.
    #[track_caller]
    pub fn send(&self, request: Request) -> Response {
        self.named(request)
            .send(self.addr())
            .unwrap_or_else(|trouble| panic!("{trouble}\n{}", self.galley.log()))
    }

    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        self.send(Request::get(target))
    }

    /// Asks another site.
    #[track_caller]
    pub fn get_from(&self, host: &str, target: &str) -> Response {
        self.send(Request::get(target).host(host))
    }

    /// The request with the first site's host, unless it names one.
    pub fn named(&self, request: Request) -> Request {
        let names_host = |(name, _): &(String, Vec<u8>)| name.eq_ignore_ascii_case("host");
        if request.fields.iter().any(names_host) {
            request
        } else {
            request.host(self.host)
        }
    }

    pub fn connect(&self) -> Connection {
        Connection::within(self.addr(), TIMEOUT).unwrap()
    }

    /// A browser without cookies.
    pub fn visitor(&self) -> Browser {
        Browser::new(self.addr(), self.host)
    }

    /// A browser of a logged-in editor.
    pub fn editor(&self) -> Browser {
        self.logged_in(0, "editor")
    }

    /// A browser of the logged-in administrator.
    pub fn admin(&self) -> Browser {
        self.logged_in(1, &self.wordpress.user)
    }

    fn logged_in(&self, number: usize, user: &str) -> Browser {
        let password = &self.wordpress.password;
        let jar = self.jars[number]
            .get_or_init(|| login(self.addr(), self.host, user, password).unwrap());
        let mut browser = self.visitor();
        browser.jar = jar.clone();
        browser
    }

    /// Runs PHP inside WordPress, past the server.
    #[track_caller]
    pub fn php(&self, code: &str) -> String {
        self.wordpress
            .php(code)
            .unwrap_or_else(|trouble| panic!("{trouble}\n{code}"))
    }

    /// Publishes posts whose slug is title and address, and returns their ids. The content is `Text of <slug>.`
    #[track_caller]
    pub fn publish<const N: usize>(&self, slugs: [&str; N]) -> [u32; N] {
        let code = format!(
            "foreach (explode(' ', '{}') as $slug) {{ echo wp_insert_post(['post_name' => $slug, 'post_title' => $slug, \
             'post_content' => \"Text of $slug.\", 'post_status' => 'publish', 'post_author' => 1]), ' '; }}",
            slugs.join(" ")
        );
        let said = self.php(&code);
        let ids: Vec<u32> = said
            .split_whitespace()
            .map(|id| id.parse().unwrap())
            .collect();
        ids.try_into().unwrap()
    }

    /// Changes a post's text past the server: nobody purges.
    pub fn rewrite(&self, id: u32, text: &str) {
        self.php(&format!(
            "wp_update_post(['ID' => {id}, 'post_content' => '{text}']);"
        ));
    }

    /// Runs `galley purge` against this server; it must succeed.
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

    fn note(&self, kind: &str, path: &str) -> PathBuf {
        self.scratch
            .join("notes")
            .join(format!("{kind}{}", path.replace('/', "_")))
    }

    /// Writes a note of one kind about a path; see lab.php.
    pub fn set(&self, kind: &str, path: &str, text: &str) {
        // In one step: PHP may look at any moment.
        let new = self.scratch.join(format!("new{}", path.replace('/', "_")));
        fs::write(&new, text).unwrap();
        fs::rename(new, self.note(kind, path)).unwrap();
    }

    pub fn unset(&self, kind: &str, path: &str) {
        fs::remove_file(self.note(kind, path)).unwrap();
    }

    /// Waits until PHP has written a note of this kind.
    #[track_caller]
    pub fn wait_for_note(&self, kind: &str, path: &str) {
        wait_for(&format!("PHP to be {kind} at {path}"), TIMEOUT, || {
            self.note(kind, path).exists()
        });
    }

    /// How often PHP ran for a path, whatever the query and host.
    pub fn runs(&self, path: &str) -> u32 {
        fs::read_to_string(self.note("runs", path))
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    }
}

/// Which run of PHP generated a response; 0 if PHP did not.
pub fn run_of(answer: &Response) -> u32 {
    answer
        .field("x-lab-run")
        .map_or(0, |run| run.parse().unwrap())
}

/// Says how an answer came to be, and shows it where that was not wanted.
#[track_caller]
pub fn assert_way(answer: &Response, wanted: &str) {
    assert_eq!(answer.cache_status(), wanted, "{}", answer.beginning());
}

/// Asserts that a body has these words; the message has what matters of the page.
#[track_caller]
pub fn assert_text(answer: &Response, wanted: &str) {
    assert!(
        answer.text().contains(wanted),
        "no `{wanted}` in\n{}",
        summary(answer)
    );
}

/// Asserts that a body does not have these words.
#[track_caller]
pub fn assert_no_text(answer: &Response, unwanted: &str) {
    assert!(
        !answer.text().contains(unwanted),
        "`{unwanted}` in\n{}",
        summary(answer)
    );
}

/// Head, title, beginning of the content, and what the page shows of its request.
pub fn summary(answer: &Response) -> String {
    let text = answer.text();
    let head = String::from_utf8_lossy(&answer.raw);
    let piece = |from: &str, length: usize| {
        let found = text.find(from).map(|at| &text[at..]).unwrap_or_default();
        found.chars().take(length).collect::<String>()
    };
    format!(
        "{}\n\n{}\n...{}\n...{}\n...{}",
        head.split("\r\n\r\n").next().unwrap_or_default(),
        text.chars().take(200).collect::<String>(),
        piece("<title>", 200),
        piece("<main", 1500),
        piece("<!-- lab", 2000)
    )
}

/// What stands between two texts.
#[track_caller]
pub fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| {
        panic!(
            "no `{before}` in\n{}",
            text.chars().take(3000).collect::<String>()
        )
    });
    rest.split_once(after)
        .unwrap_or_else(|| panic!("no `{after}` behind `{before}`"))
        .0
}

fn open_to_all(dir: PathBuf) -> PathBuf {
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o1777)).unwrap();
    dir
}
