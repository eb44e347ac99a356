//! Members, carts and strangers request the same pages at once, log out, and have pages purged: nobody ever gets a byte of another's,
//! and nobody gets what was generated before a purge or for a session that has ended.
//!
//! The origin says what WordPress's plugin says. `GALLEY_MEMBER_EXCHANGES` sets the number of exchanges.

use std::collections::HashSet;
use std::env;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};

use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite};

const PAGES: usize = 6;
const SLOTS: usize = 12;
const THREADS: usize = 4;
const AGENT: &str = "browser";

/// What the origin and the clients share.
#[derive(Default)]
struct World {
    /// The version of each page that the origin generates.
    versions: [AtomicU64; PAGES],
    /// The oldest version that anybody may get: an acknowledged purge came before it.
    floors: [AtomicU64; PAGES],
    /// Sessions that have ended for the origin.
    ended: Mutex<HashSet<String>>,
    /// Sessions whose logout has been answered.
    gone: Mutex<HashSet<String>>,
}

/// A page as the origin generates it, with the fields of its private fragments.
struct Generated {
    body: String,
    fields: Vec<String>,
}

impl Generated {
    fn new() -> Self {
        Self {
            body: String::new(),
            fields: Vec::new(),
        }
    }

    fn private(&mut self, name: &str, scope: &str, html: &str) {
        let (start, length) = (self.body.len(), html.len());
        self.fields
            .push(format!("{name} {start} {length} - private-{scope} mb"));
        self.body.push_str(html);
    }
}

/// Tokens of editors begin so: their pages differ outside of the private fragments.
const EDITOR: &str = "editor";

/// `token`: whose page it is; none: a stranger's.
fn generate(page: usize, version: u64, token: Option<&str>) -> Generated {
    let mut out = Generated::new();
    out.body.push_str("<!doctype html><html><head><title>");
    let _ = write!(out.body, "page {page}</title></head><body class=\"home");
    out.private("body-class", "session", token.map_or("", |_| " logged-in"));
    out.body.push_str("\">");
    let bar = token.map_or(String::new(), |token| {
        format!("<div>PRIVATE-{token}-bar;</div>")
    });
    out.private("toolbar", "session", &bar);
    let _ = write!(out.body, "<p>VERSION-{version};</p>");
    if token.is_some_and(|token| token.starts_with(EDITOR)) {
        out.body.push_str("<a>EDIT</a>");
    }
    if page % 2 == 1 {
        let form = match token {
            Some(token) => format!("<form>PRIVATE-{token}-p{page};VERSION-{version};</form>"),
            None => "<form>log in</form>".to_owned(),
        };
        out.private("comment-form", "page", &form);
    }
    out.body
        .push_str("<p>the end of the page</p></body></html>\n");
    out
}

fn token_of(seen: &ReceivedRequest) -> Option<String> {
    let cookies = seen.field("cookie")?;
    let mut pairs = cookies.split("; ");
    let found = pairs.find_map(|pair| {
        pair.strip_prefix("wordpress_logged_in_0a=")
            .or_else(|| pair.strip_prefix("wp_woocommerce_session_0a="))
    });
    found.map(str::to_owned)
}

fn respond(world: &World, seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>) {
    let token = token_of(seen);
    if seen.path() == "/logout" {
        if let Some(token) = token {
            world.ended.lock().unwrap().insert(token);
        }
        writer.answer(
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
    let page = seen
        .path()
        .strip_prefix("/p")
        .and_then(|page| page.parse::<usize>().ok());
    let Some(page) = page.filter(|page| *page < PAGES) else {
        writer.answer(
            404,
            &[("content-type", "text/html")],
            b"<html>no such page</html>",
        );
        return;
    };
    let kind = seen.field("galley-request").unwrap_or_default();
    let version = world.versions[page].load(Ordering::SeqCst);
    let alive = token.filter(|token| !world.ended.lock().unwrap().contains(token));
    let is_shared = kind == "shared";
    assert!(
        !is_shared || alive.is_none(),
        "a session in the request for a shared page"
    );
    let generated = generate(page, version, alive.as_deref());
    let class = alive.as_deref().map(|token| {
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
        // Nobody else may store it either.
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
                .fields
                .iter()
                .map(|field| ("galley-fragment", field.as_str())),
        );
    }
    writer.answer(200, &fields, generated.body.as_bytes());
}

/// A number generator that needs no crate.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }
}

/// All that follows this word, up to a semicolon each.
fn marked<'t>(text: &'t str, word: &str) -> Vec<&'t str> {
    let parts = text.split(word).skip(1);
    parts.map(|part| part.split(';').next().unwrap()).collect()
}

/// Everybody who requests.
struct Crowd {
    world: Arc<World>,
    /// The session that each member has now.
    tokens: Vec<Mutex<String>>,
    next: AtomicUsize,
    done: AtomicUsize,
    assembled: AtomicUsize,
}

impl Crowd {
    fn new(world: &Arc<World>) -> Self {
        let crowd = Self {
            world: Arc::clone(world),
            tokens: (0..SLOTS).map(|_| Mutex::default()).collect(),
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            assembled: AtomicUsize::new(0),
        };
        for slot in 0..SLOTS {
            crowd.log_in(slot);
        }
        crowd
    }

    fn log_in(&self, slot: usize) -> String {
        let kind = if slot % 6 == 5 { EDITOR } else { "member" };
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        std::mem::replace(
            &mut self.tokens[slot].lock().unwrap(),
            format!("{kind}{number}"),
        )
    }

    /// Requests a page with a session, and checks what comes.
    fn visit(&self, connection: &mut Connection, numbers: &mut Numbers, slot: usize) {
        let token = self.tokens[slot].lock().unwrap().clone();
        let page = numbers.below(PAGES);
        let cookie = if slot % 6 == 4 {
            "wp_woocommerce_session_0a"
        } else {
            "wordpress_logged_in_0a"
        };
        let mut request = Request::get(&format!("/p{page}"))
            .host(HOST)
            .field("User-Agent", AGENT)
            .cookie(&format!("_ga=1; {cookie}={token}"));
        if numbers.below(8) == 0 {
            // What only Galley and the plugin may say to each other.
            request = request
                .field("Galley-Request", "member")
                .field("Galley-Member", "editor-1")
                .field("Galley-Fragment", "toolbar 0 9 - private-session");
        }
        let is_gone = self.world.gone.lock().unwrap().contains(&token);
        let answer = self.exchange(connection, &request, page);
        let text = answer.text();
        let own = marked(&text, "PRIVATE-");
        for found in &own {
            let wanted = [format!("{token}-bar"), format!("{token}-p{page}")];
            assert!(
                wanted.iter().any(|wanted| wanted == found),
                "{found} for {token} on {page}"
            );
        }
        assert!(
            !is_gone || own.is_empty(),
            "{token} had logged out: {}",
            answer.beginning()
        );
        let is_editor = token.starts_with(EDITOR) && !own.is_empty();
        assert_eq!(
            text.contains("EDIT"),
            is_editor,
            "{}\n{text}",
            answer.beginning()
        );
        let way = answer.cache_status();
        if way.contains("assembled") || way.contains("compared") {
            assert_eq!(answer.field("cache-control"), Some("private, no-store"));
            assert!(
                !answer.has("etag") && !answer.has("cdn-cache-control"),
                "{}",
                answer.beginning()
            );
        }
        if way.contains("assembled") {
            let parts = if page % 2 == 1 { 2 } else { 1 };
            assert_eq!(own.len(), parts, "{}\n{text}", answer.beginning());
            assert!(text.contains("class=\"home logged-in\""), "{text}");
            self.assembled.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn pass_by(&self, connection: &mut Connection, numbers: &mut Numbers) {
        let page = numbers.below(PAGES);
        let request = Request::get(&format!("/p{page}"))
            .host(HOST)
            .field("User-Agent", AGENT);
        let answer = self.exchange(connection, &request, page);
        let text = answer.text();
        for word in ["PRIVATE", "logged-in", "EDIT"] {
            assert!(
                !text.contains(word),
                "{word}: {}\n{text}",
                answer.beginning()
            );
        }
    }

    fn exchange(&self, connection: &mut Connection, request: &Request, page: usize) -> Response {
        let floor = self.world.floors[page].load(Ordering::SeqCst);
        let answer = connection.exchange(request).unwrap().expect_status(200);
        for version in marked(&answer.text(), "VERSION-") {
            let version: u64 = version.parse().unwrap();
            assert!(
                version >= floor,
                "{version} after the purge of {floor}: {}",
                answer.beginning()
            );
        }
        for (name, _) in &answer.fields {
            assert!(
                !name.to_ascii_lowercase().starts_with("galley-"),
                "{}",
                answer.beginning()
            );
        }
        self.done.fetch_add(1, Ordering::Relaxed);
        answer
    }

    fn log_out(&self, connection: &mut Connection, slot: usize) {
        let token = self.log_in(slot);
        let request = Request::form("/logout", &[("a", "b")])
            .host(HOST)
            .field("User-Agent", AGENT)
            .cookie(&format!("wordpress_logged_in_0a={token}"));
        let answer = connection.exchange(&request).unwrap();
        assert_eq!(answer.status, 302, "{}", answer.beginning());
        self.world.gone.lock().unwrap().insert(token);
    }

    /// Changes a page, and has it purged.
    fn edit(&self, connection: &mut Connection, page: usize) {
        let version = self.world.versions[page].fetch_add(1, Ordering::SeqCst) + 1;
        let request = Request::new("PURGE", &format!("/p{page}")).host(HOST);
        let answer = connection.exchange(&request).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.beginning());
        self.world.floors[page].fetch_max(version, Ordering::SeqCst);
    }

    fn run(&self, site: &TestSite, seed: u64, exchanges: usize) {
        let mut numbers = Numbers(seed);
        let mut connection = Connection::within(site.addr(), TIMEOUT).unwrap();
        while self.done.load(Ordering::Relaxed) < exchanges {
            match numbers.below(400) {
                0 => self.edit(&mut connection, numbers.below(PAGES)),
                1..=2 => {
                    let slot = numbers.below(SLOTS);
                    // One with a cart has no account.
                    if slot % 6 != 4 {
                        self.log_out(&mut connection, slot);
                    }
                }
                3..=120 => self.pass_by(&mut connection, &mut numbers),
                _ => {
                    let slot = numbers.below(SLOTS);
                    self.visit(&mut connection, &mut numbers, slot);
                }
            }
        }
    }
}

#[test]
fn interleaved_sessions_never_see_each_other() {
    let exchanges = env::var("GALLEY_MEMBER_EXCHANGES").map_or(6_000, |text| text.parse().unwrap());
    let world = Arc::new(World::default());
    let behind = Arc::clone(&world);
    let origin =
        Origin::start_unrecorded(move |seen, writer| respond(&behind, seen, writer)).unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("members = \"fragments\"\npurge_allow = [\"127.0.0.1\"]")
        .server("limit_exempt = [\"127.0.0.1\"]")
        .start();
    let crowd = Crowd::new(&world);
    std::thread::scope(|scope| {
        for thread in 1..=THREADS {
            let (crowd, site) = (&crowd, &site);
            scope.spawn(move || crowd.run(site, 7919 * thread as u64, exchanges));
        }
    });
    // Else nothing was tested.
    let assembled = crowd.assembled.load(Ordering::Relaxed);
    assert!(
        assembled * 5 > exchanges,
        "{assembled} of {exchanges} were assembled"
    );
}
