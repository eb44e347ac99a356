//! Concurrent requests of members, customers with carts and anonymous visitors for the same pages, with logouts and purges. No
//! response may contain private content of another session, of an ended session, or from before a purge.
//!
//! The origin sends the response fields of the WordPress plugin. `GALLEY_MEMBER_EXCHANGES` sets the number of exchanges.

use std::collections::HashSet;
use std::env;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;

use crate::http2::client::Client;
use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite};

const PAGES: usize = 6;
const USERS: usize = 12;
const THREADS: usize = 4;
const AGENT: &str = "browser";

/// The state that the origin and the clients share.
#[derive(Default)]
struct SharedState {
    /// The current version of each page.
    versions: [AtomicU64; PAGES],
    /// The oldest version of each page that a response may contain, raised when a purge is acknowledged.
    minimum_versions: [AtomicU64; PAGES],
    /// Sessions that the origin has ended.
    ended: Mutex<HashSet<String>>,
    /// Sessions whose logout response has been received.
    logged_out: Mutex<HashSet<String>>,
}

/// A page with the `Galley-Fragment` values of its private fragments.
struct GeneratedPage {
    body: String,
    fragments: Vec<String>,
}

impl GeneratedPage {
    fn new() -> Self {
        Self {
            body: String::new(),
            fragments: Vec::new(),
        }
    }

    fn push_private(&mut self, name: &str, scope: &str, html: &str) {
        let (start, length) = (self.body.len(), html.len());
        self.fragments
            .push(format!("{name} {start} {length} - private-{scope} mb"));
        self.body.push_str(html);
    }
}

/// The prefix of editors' tokens. Pages of editors also differ outside of the private fragments.
const EDITOR: &str = "editor";

/// Generates a page for the session with this token, or for an anonymous visitor.
fn generate(page: usize, version: u64, token: Option<&str>) -> GeneratedPage {
    let mut out = GeneratedPage::new();
    out.body.push_str("<!doctype html><html><head><title>");
    let _ = write!(out.body, "page {page}</title></head><body class=\"home");
    out.push_private("body-class", "session", token.map_or("", |_| " logged-in"));
    out.body.push_str("\">");
    let bar = token.map_or(String::new(), |token| {
        format!("<div>PRIVATE-{token}-bar;</div>")
    });
    out.push_private("toolbar", "session", &bar);
    let _ = write!(out.body, "<p>VERSION-{version};</p>");
    if token.is_some_and(|token| token.starts_with(EDITOR)) {
        out.body.push_str("<a>EDIT</a>");
    }
    if page % 2 == 1 {
        let form = match token {
            Some(token) => format!("<form>PRIVATE-{token}-p{page};VERSION-{version};</form>"),
            None => "<form>log in</form>".to_owned(),
        };
        out.push_private("comment-form", "page", &form);
    }
    out.body
        .push_str("<p>the end of the page</p></body></html>\n");
    out
}

fn token_of(request: &ReceivedRequest) -> Option<String> {
    let cookies = request.field("cookie")?;
    let mut pairs = cookies.split("; ");
    let token = pairs.find_map(|pair| {
        pair.strip_prefix("wordpress_logged_in_0a=")
            .or_else(|| pair.strip_prefix("wp_woocommerce_session_0a="))
    });
    token.map(str::to_owned)
}

fn respond(state: &SharedState, request: &ReceivedRequest, writer: &mut ResponseWriter<'_>) {
    let token = token_of(request);
    if request.path() == "/logout" {
        if let Some(token) = token {
            state.ended.lock().unwrap().insert(token);
        }
        writer.respond(
            302,
            &[
                ("location", "/p0"),
                (
                    "set-cookie",
                    "wordpress_logged_in_0a=x; expires=Thu, 01 Jan 1970 00:00:00 GMT",
                ),
            ],
            b"",
        );
        return;
    }
    let page = request
        .path()
        .strip_prefix("/p")
        .and_then(|page| page.parse::<usize>().ok());
    let Some(page) = page.filter(|page| *page < PAGES) else {
        writer.respond(
            404,
            &[("content-type", "text/html")],
            b"<html>no such page</html>",
        );
        return;
    };
    let kind = request.field("galley-request").unwrap_or_default();
    let version = state.versions[page].load(Ordering::SeqCst);
    let session = token.filter(|token| !state.ended.lock().unwrap().contains(token));
    let is_shared = kind == "shared";
    assert!(
        !is_shared || session.is_none(),
        "a request for a shared page contains a session"
    );
    let generated = generate(page, version, session.as_deref());
    let class = session.as_deref().map(|token| {
        if token.starts_with(EDITOR) {
            "editor-1"
        } else {
            "subscriber-1"
        }
    });
    let mut fields = vec![("content-type", "text/html; charset=utf-8")];
    if is_shared {
        fields.push(("galley-cache-control", "max-age=3600"));
        fields.push(("galley-tags", "b"));
        // Galley must not forward this field for pages with private fragments.
        fields.push(("cdn-cache-control", "max-age=3600"));
    }
    if kind == "member"
        && let Some(class) = class
    {
        fields.push(("galley-member", class));
    }
    if is_shared || kind == "member" {
        fields.extend(
            generated
                .fragments
                .iter()
                .map(|field| ("galley-fragment", field.as_str())),
        );
    }
    writer.respond(200, &fields, generated.body.as_bytes());
}

/// A xorshift random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

/// All values that follow this prefix, each up to a semicolon.
fn values<'t>(text: &'t str, prefix: &str) -> Vec<&'t str> {
    let parts = text.split(prefix).skip(1);
    parts.map(|part| part.split(';').next().unwrap()).collect()
}

/// The clients. Users 4, 10, ... are customers with a cart, users 5, 11, ... are editors, the others are members.
struct Clients {
    state: Arc<SharedState>,
    /// The current session token of each user.
    tokens: Vec<Mutex<String>>,
    next_session: AtomicUsize,
    exchanges: AtomicUsize,
    assembled: AtomicUsize,
}

impl Clients {
    fn new(state: &Arc<SharedState>) -> Self {
        let clients = Self {
            state: Arc::clone(state),
            tokens: (0..USERS).map(|_| Mutex::default()).collect(),
            next_session: AtomicUsize::new(0),
            exchanges: AtomicUsize::new(0),
            assembled: AtomicUsize::new(0),
        };
        for user in 0..USERS {
            clients.log_in(user);
        }
        clients
    }

    /// Starts a new session; returns the token of the previous one.
    fn log_in(&self, user: usize) -> String {
        let kind = if user % 6 == 5 { EDITOR } else { "member" };
        let number = self.next_session.fetch_add(1, Ordering::SeqCst);
        std::mem::replace(
            &mut self.tokens[user].lock().unwrap(),
            format!("{kind}{number}"),
        )
    }

    /// Requests a page with a session and checks the response.
    fn visit(&self, connection: &mut Connection, random: &mut Random, user: usize) {
        let token = self.tokens[user].lock().unwrap().clone();
        let page = random.below(PAGES);
        let cookie = if user % 6 == 4 {
            "wp_woocommerce_session_0a"
        } else {
            "wordpress_logged_in_0a"
        };
        let mut request = Request::get(&format!("/p{page}"))
            .host(HOST)
            .field("User-Agent", AGENT)
            .cookie(&format!("_ga=1; {cookie}={token}"));
        if random.below(8) == 0 {
            // Fields that only Galley and the plugin may send to each other.
            request = request
                .field("Galley-Request", "member")
                .field("Galley-Member", "editor-1")
                .field("Galley-Fragment", "toolbar 0 9 - private-session");
        }
        let is_logged_out = self.state.logged_out.lock().unwrap().contains(&token);
        let response = self.exchange(connection, &request, page);
        let text = response.text();
        let private = values(&text, "PRIVATE-");
        for value in &private {
            let expected = [format!("{token}-bar"), format!("{token}-p{page}")];
            assert!(
                expected.iter().any(|expected| expected == value),
                "{value} for {token} on {page}"
            );
        }
        assert!(
            !is_logged_out || private.is_empty(),
            "{token} had logged out: {}",
            response.excerpt()
        );
        let is_editor = token.starts_with(EDITOR) && !private.is_empty();
        assert_eq!(
            text.contains("EDIT"),
            is_editor,
            "{}\n{text}",
            response.excerpt()
        );
        let status = response.cache_status();
        if status.contains("assembled") || status.contains("compared") {
            assert_eq!(response.field("cache-control"), Some("private, no-store"));
            assert!(
                !response.has("etag") && !response.has("cdn-cache-control"),
                "{}",
                response.excerpt()
            );
        }
        if status.contains("assembled") {
            let fragments = if page % 2 == 1 { 2 } else { 1 };
            assert_eq!(private.len(), fragments, "{}\n{text}", response.excerpt());
            assert!(text.contains("class=\"home logged-in\""), "{text}");
            self.assembled.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests a page without a session and checks the response.
    fn visit_anonymously(&self, connection: &mut Connection, random: &mut Random) {
        let page = random.below(PAGES);
        let request = Request::get(&format!("/p{page}"))
            .host(HOST)
            .field("User-Agent", AGENT);
        let response = self.exchange(connection, &request, page);
        let text = response.text();
        for word in ["PRIVATE", "logged-in", "EDIT"] {
            assert!(
                !text.contains(word),
                "{word}: {}\n{text}",
                response.excerpt()
            );
        }
    }

    fn exchange(&self, connection: &mut Connection, request: &Request, page: usize) -> Response {
        let minimum = self.state.minimum_versions[page].load(Ordering::SeqCst);
        let response = connection.exchange(request).unwrap().expect_status(200);
        for version in values(&response.text(), "VERSION-") {
            let version: u64 = version.parse().unwrap();
            assert!(
                version >= minimum,
                "version {version} after {minimum} was acknowledged: {}",
                response.excerpt()
            );
        }
        for (name, _) in &response.fields {
            assert!(
                !name.to_ascii_lowercase().starts_with("galley-"),
                "{}",
                response.excerpt()
            );
        }
        self.exchanges.fetch_add(1, Ordering::Relaxed);
        response
    }

    fn log_out(&self, connection: &mut Connection, user: usize) {
        let token = self.log_in(user);
        let request = Request::form("/logout", &[("a", "b")])
            .host(HOST)
            .field("User-Agent", AGENT)
            .cookie(&format!("wordpress_logged_in_0a={token}"));
        let response = connection.exchange(&request).unwrap();
        assert_eq!(response.status, 302, "{}", response.excerpt());
        self.state.logged_out.lock().unwrap().insert(token);
    }

    /// Changes a page and purges it.
    fn edit(&self, connection: &mut Connection, page: usize) {
        let version = self.state.versions[page].fetch_add(1, Ordering::SeqCst) + 1;
        let request = Request::new("PURGE", &format!("/p{page}")).host(HOST);
        let response = connection.exchange(&request).unwrap();
        assert_eq!(response.status, 200, "{}", response.excerpt());
        self.state.minimum_versions[page].fetch_max(version, Ordering::SeqCst);
    }

    fn run(&self, site: &TestSite, seed: u64, exchanges: usize) {
        let mut random = Random(seed);
        let mut connection = Connection::within(site.addr(), TIMEOUT).unwrap();
        while self.exchanges.load(Ordering::Relaxed) < exchanges {
            match random.below(400) {
                0 => self.edit(&mut connection, random.below(PAGES)),
                1..=2 => {
                    let user = random.below(USERS);
                    // Customers with a cart have no account.
                    if user % 6 != 4 {
                        self.log_out(&mut connection, user);
                    }
                }
                3..=120 => self.visit_anonymously(&mut connection, &mut random),
                _ => {
                    let user = random.below(USERS);
                    self.visit(&mut connection, &mut random, user);
                }
            }
        }
    }
}

#[test]
fn interleaved_sessions_never_receive_private_content_of_each_other() {
    let exchanges = env::var("GALLEY_MEMBER_EXCHANGES").map_or(6_000, |text| text.parse().unwrap());
    let state = Arc::new(SharedState::default());
    let origin_state = Arc::clone(&state);
    let origin =
        Origin::start_unrecorded(move |request, writer| respond(&origin_state, request, writer))
            .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("members = \"fragments\"\npurge_allow = [\"127.0.0.1\"]")
        .server("limit_exempt = [\"127.0.0.1\"]")
        .start();
    let clients = Clients::new(&state);
    std::thread::scope(|scope| {
        for thread in 1..=THREADS {
            let (clients, site) = (&clients, &site);
            scope.spawn(move || clients.run(site, 7919 * thread as u64, exchanges));
        }
    });
    // The test is only meaningful if enough pages were assembled from fragments.
    let assembled = clients.assembled.load(Ordering::Relaxed);
    assert!(
        assembled * 5 > exchanges,
        "{assembled} of {exchanges} were assembled"
    );
}

#[test]
fn an_assembled_page_has_the_same_bytes_over_every_protocol() {
    let state = Arc::new(SharedState::default());
    let origin =
        Origin::start_unrecorded(move |request, writer| respond(&state, request, writer)).unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("members = \"fragments\"")
        .server("h2c = true")
        .start();
    let cookie = "wordpress_logged_in_0a=member0";
    for page in 0..2 {
        let target = format!("/p{page}");
        assert_eq!(site.get(&target).status, 200);
        let request = Request::get(&target).cookie(cookie);
        let get = || site.send(request.clone());
        let is_assembled = |response: &Response| response.cache_status().contains("assembled");
        wait_for("a page with private fragments", TIMEOUT, || {
            is_assembled(&get())
        });
        let (http1, http2) = (get(), Client::open(site.addr()).send(&request));
        assert!(is_assembled(&http1) && is_assembled(&http2));
        assert_eq!(http1.text(), generate(page, 0, Some("member0")).body);
        assert_eq!(http2.body, http1.body);
        let length = http1.body.len().to_string();
        for response in [&http1, &http2] {
            assert_eq!(response.field("content-length"), Some(&*length));
        }
    }
}
