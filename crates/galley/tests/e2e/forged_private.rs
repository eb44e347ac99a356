//! Private fragments against people who try to get or give what is not theirs: the lists of `poison` and `deception`, session ids of
//! others, hosts in other spellings, and descriptions of fragments that make no sense.
//!
//! The origin prints all that it receives into the private part of a page.

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};

use crate::poison::{Kind, attempts};
use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite};
use crate::wordpress::deception::addresses;

const SESSION: &str = "wordpress_logged_in_0a";
const AGENT: &str = "browser";

/// A page with one private part, which strangers see empty.
struct Page {
    before: String,
    private: String,
}

const AFTER: &str = "</p></body></html>";

impl Page {
    fn of(seen: &ReceivedRequest) -> Self {
        let host = seen.field("host").unwrap_or_default();
        let private = owner(seen.field("cookie").unwrap_or_default()).map(|owner| {
            let fields = seen.fields.iter();
            let fields = fields.map(|(name, value)| {
                let value = String::from_utf8_lossy(value);
                format!("{name}={value}|")
            });
            format!("PRIVATE-{owner};{}", fields.collect::<String>())
        });
        Self {
            before: format!("<html><body><p>of {host}; "),
            private: private.unwrap_or_default(),
        }
    }

    fn text(&self) -> String {
        format!("{}{}{AFTER}", self.before, self.private)
    }

    /// What describes the private part.
    fn field(&self, name: &str) -> String {
        let (start, length) = (self.before.len(), self.private.len());
        format!("{name} {start} {length} - private-page mb")
    }
}

/// The value of the first cookie of this name, as PHP reads them.
fn owner(cookies: &str) -> Option<&str> {
    let mut pairs = cookies.split(';').map(str::trim_start);
    let found = pairs.find_map(|pair| pair.strip_prefix(SESSION)?.strip_prefix('='));
    found.filter(|owner| !owner.is_empty())
}

/// What the plugin says of a page.
struct Said {
    fields: Vec<String>,
    class: Option<&'static str>,
}

/// An origin with the plugin. `describe`: what it says in place of the truth.
fn origin(
    describe: impl Fn(&ReceivedRequest, &Page) -> Option<Vec<String>> + Send + Sync + 'static,
) -> Origin {
    let script = move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
        let page = Page::of(seen);
        let kind = seen.field("galley-request").unwrap_or_default();
        let said = Said {
            fields: describe(seen, &page).unwrap_or_else(|| vec![page.field("bar")]),
            class: (kind == "member" && !page.private.is_empty()).then_some("subscriber-1"),
        };
        send(writer, kind, &page, &said);
    };
    Origin::start_unrecorded(script).unwrap()
}

fn send(writer: &mut ResponseWriter<'_>, kind: &str, page: &Page, said: &Said) {
    let mut fields = vec![("content-type", "text/html; charset=utf-8")];
    if kind == "shared" {
        fields.push(("galley-cache-control", "max-age=3600"));
        fields.push(("galley-tags", "b"));
    }
    if let Some(class) = said.class {
        fields.push(("galley-member", class));
    }
    if kind == "shared" || kind == "member" {
        fields.extend(
            said.fields
                .iter()
                .map(|field| ("galley-fragment", field.as_str())),
        );
    }
    // Pieces that end within tags, names and the private part.
    if writer.chunked(200, &fields) {
        for piece in page.text().as_bytes().chunks(7) {
            writer.chunk(piece);
        }
        writer.last_chunk();
    }
}

fn site(origin: &Origin) -> TestSite {
    SiteBuilder::origin(origin, "wordpress")
        .site("members = \"fragments\"")
        .server("limit_exempt = [\"127.0.0.1\"]")
        .start()
}

/// Everybody's requests over one connection, as far as it stays open.
struct Visitors<'s> {
    site: &'s TestSite,
    connection: Option<Connection>,
}

impl<'s> Visitors<'s> {
    fn new(site: &'s TestSite) -> Self {
        Self {
            site,
            connection: None,
        }
    }

    /// Sends a request as it is.
    fn send(&mut self, request: &Request) -> Response {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::within(self.site.addr(), TIMEOUT).unwrap(),
        };
        let answer = connection.exchange(request).unwrap();
        let is_over = answer
            .field("connection")
            .is_some_and(|option| option.contains("close"));
        if !is_over {
            self.connection = Some(connection);
        }
        for (name, _) in &answer.fields {
            let name = name.to_ascii_lowercase();
            assert!(!name.starts_with("galley-"), "{}", answer.beginning());
        }
        answer
    }

    fn stranger(&mut self, target: &str) -> Response {
        self.send(&plain(target))
    }

    fn member(&mut self, token: &str, target: &str) -> Response {
        self.send(&plain(target).cookie(&format!("{SESSION}={token}")))
    }

    /// A stranger's page shows nothing private.
    #[track_caller]
    fn assert_public(&mut self, target: &str, after: &str) {
        let answer = self.stranger(target);
        let (text, is_fine) = (answer.text(), !shows_a_canary(&answer));
        let is_public = !text.contains("PRIVATE") && is_fine;
        assert!(is_public, "after {after}: {}\n{text}", answer.beginning());
    }

    /// A member's page shows the member's own part.
    #[track_caller]
    fn assert_own(&mut self, token: &str, target: &str, after: &str) -> Response {
        let answer = self.member(token, target);
        let (text, is_fine) = (answer.text(), !shows_a_canary(&answer));
        let parts = text.matches("PRIVATE-").count();
        let is_own = parts == 1 && text.contains(&format!("PRIVATE-{token};")) && is_fine;
        assert!(is_own, "after {after}: {}\n{text}", answer.beginning());
        answer
    }
}

fn plain(target: &str) -> Request {
    Request::get(target).host(HOST).field("User-Agent", AGENT)
}

/// Whether a canary is in the head or in the body, whose bytes come in chunks.
fn shows_a_canary(answer: &Response) -> bool {
    let text = format!("{}{}", answer.beginning(), answer.text()).to_ascii_lowercase();
    text.contains("canary") && text.contains("evil.test")
}

fn is_assembled(answer: &Response) -> bool {
    answer.cache_status().contains("detail=assembled")
}

/// What only Galley and the plugin may say to each other, and where hosts and sessions may be named.
const SAID_TO_EACH_OTHER: &[(&str, &str)] = &[
    ("Galley-Request", "member"),
    ("Galley-Request", "shared"),
    ("Galley_Request", "member"),
    ("Galley-Members", "fragments"),
    ("Galley-Member", "canary.evil.test"),
    (
        "Galley-Fragment",
        "bar 0 9 - private-session canary.evil.test",
    ),
    ("Galley_Fragment", "canary.evil.test"),
    ("Galley-Fragment-Except", "canary.evil.test"),
    ("Galley-Token", "canary.evil.test"),
    ("Galley-Acknowledged", "canary.evil.test"),
    ("Galley-Tags", "canary.evil.test"),
    ("Galley-Cache-Control", "max-age=9, canary.evil.test"),
    ("Galley-Purge", "canary.evil.test"),
    ("Authorization", "Bearer canary.evil.test"),
    ("X-Forwarded-Host", "canary.evil.test"),
    ("Forwarded", "host=canary.evil.test"),
    ("X-WP-Nonce", "canary.evil.test"),
    ("Set-Cookie", "wordpress_logged_in_0a=canary.evil.test"),
    ("Cookie2", "wordpress_logged_in_0a=canary.evil.test"),
];

#[test]
fn a_canary_of_one_member_is_in_the_page_of_nobody_else() {
    let origin = origin(|_, _| None);
    let site = site(&origin);
    let mut visitors = Visitors::new(&site);
    // It is in the member's own page, where the request bypasses the cache.
    let own = plain("/own?canary.evil.test").cookie(&format!("{SESSION}=one; x=canary.evil.test"));
    assert!(shows_a_canary(&visitors.send(&own)));

    let listed = attempts();
    let listed = listed.iter().map(|attempt| {
        let request = |path: &str, token: &str| {
            let session = format!("{SESSION}={token}");
            match attempt.kind {
                Kind::Cookie => attempt.request(path).host(HOST).field("Cookie", session),
                Kind::Header | Kind::Query => attempt.request(path).host(HOST).cookie(&session),
            }
        };
        (
            attempt.text,
            Box::new(request) as Box<dyn Fn(&str, &str) -> Request>,
        )
    });
    let said = SAID_TO_EACH_OTHER.iter().map(|&(name, value)| {
        let request = move |path: &str, token: &str| {
            let session = format!("{SESSION}={token}");
            plain(path).field(name, value).cookie(&session)
        };
        (
            name,
            Box::new(request) as Box<dyn Fn(&str, &str) -> Request>,
        )
    });
    let mut assembled = 0;
    for (number, (name, dirty)) in listed.chain(said).enumerate() {
        let path = format!("/page-{number}");
        // Before the page is stored, while members are compared, and when they get the stored page.
        let turns: &[&str] = match number % 3 {
            0 => &["dirty", "stranger", "other"],
            1 => &["stranger", "dirty", "other", "stranger"],
            _ => &["stranger", "other", "dirty", "other", "stranger"],
        };
        for turn in turns {
            match *turn {
                "dirty" => drop(visitors.send(&dirty(&path, "one"))),
                "stranger" => visitors.assert_public(&path, name),
                _ => {
                    let own = visitors.assert_own("two", &path, name);
                    assembled += usize::from(is_assembled(&own));
                }
            }
        }
    }
    // Else nothing was tried.
    assert!(assembled > 400, "{assembled} were assembled");
}

#[test]
fn addresses_that_look_like_files_show_strangers_nothing_of_a_member() {
    let origin = origin(|_, _| None);
    let site = site(&origin);
    let mut visitors = Visitors::new(&site);
    let mut personal = 0;
    for target in addresses() {
        // As if it were stored for everybody, and as the first request for it.
        let own = visitors.member("one", &target);
        personal += usize::from(own.text().contains("PRIVATE-one;"));
        assert!(
            !own.cache_status().contains("stored"),
            "{}",
            own.beginning()
        );
        visitors.assert_public(&target, &target);
        let again = visitors.member("one", &target);
        assert!(!again.text().contains("PRIVATE-two"), "{target}");
        let other = visitors.member("two", &target);
        assert!(!other.text().contains("PRIVATE-one"), "{target}");
        visitors.assert_public(&target, &target);
    }
    assert!(personal > 30, "{personal} showed the member's own part");
}

#[test]
fn whose_page_it_is_says_the_cookie_as_php_reads_it() {
    let origin = origin(|_, _| None);
    let site = site(&origin);
    let mut visitors = Visitors::new(&site);
    visitors.assert_public("/page", "nothing");
    let long = "x".repeat(3000);
    let cookies = [
        format!("{SESSION}=one"),
        format!("{SESSION}=two"),
        format!("{SESSION}=one; {SESSION}=two"),
        format!("{SESSION}=two; {SESSION}=one"),
        format!("{SESSION}=one;{SESSION}=two"),
        format!("{SESSION}=one; wordpress_logged_in_0b=two"),
        format!("wordpress_logged_in_0b=two; {SESSION}=one"),
        format!("wordpress_logged_in_0b=two; {SESSION}=one; woocommerce_items_in_cart=1"),
        format!("{SESSION}=one%20; a=b"),
        format!("{SESSION}=on; {SESSION}=one"),
        format!("{SESSION}=one|two"),
        format!("{SESSION}=../../one"),
        format!("{SESSION}=\u{fc}\u{1f600}"),
        format!("{SESSION}={long}1"),
        format!("{SESSION}={long}2"),
        format!("x={SESSION}=two; {SESSION}=one"),
        format!("WORDPRESS_LOGGED_IN_0A=two; {SESSION}=one"),
        format!("{SESSION}=; {SESSION}=two"),
        "wordpress_logged_in_0b=two".to_owned(),
        SESSION.to_owned(),
    ];
    let mut assembled = 0;
    for round in 0..6 {
        // In another order each time, so that each finds what every other one has left.
        for number in 0..cookies.len() {
            let cookies = &cookies[(number * (2 * round + 1) + round) % cookies.len()];
            let answer = visitors.send(&plain("/page").cookie(cookies));
            let text = answer.text();
            let shown = text.split_once("PRIVATE-").map(|(_, rest)| rest);
            let shown = shown.and_then(|rest| rest.split_once(';'));
            let shown = shown.map(|(owner, _)| owner);
            assert_eq!(
                shown,
                owner(cookies),
                "{cookies:.80}: {}",
                answer.beginning()
            );
            assembled += usize::from(is_assembled(&answer));
            if number % 5 == 0 {
                visitors.assert_public("/page", cookies);
            }
        }
    }
    assert!(assembled > 30, "{assembled} were assembled");
}

#[test]
fn a_host_in_another_spelling_leads_to_the_same_page_or_to_none() {
    let origin = origin(|_, _| None);
    let more = format!(
        "[[site]]\nhosts = [\"other.test\"]\npreset = \"wordpress\"\nmembers = \"fragments\"\nupstream = [\"{}\"]",
        origin.url()
    );
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("members = \"fragments\"")
        .more(&more)
        .start();
    let mut visitors = Visitors::new(&site);
    for target in ["/page", "/PAGE"] {
        visitors.assert_public(target, "nothing");
    }
    let upper = HOST.to_ascii_uppercase();
    let spelled = [
        HOST.to_owned(),
        upper.clone(),
        format!("{HOST}."),
        format!("{HOST}:80"),
        format!("{upper}.:80"),
        format!("{HOST}:8080"),
        "other.test".to_owned(),
        "OTHER.test".to_owned(),
        "evil.test".to_owned(),
        format!("{HOST}@evil.test"),
        format!("evil.test, {HOST}"),
        format!("{HOST}/evil.test"),
        format!("{HOST}%00.evil.test"),
        "xn--evil-0a.test".to_owned(),
    ];
    let mut answered = 0;
    for round in 0..3 {
        for host in &spelled {
            for session in [None, Some("one"), Some("two")] {
                let mut request = Request::get("/page").host(host).field("User-Agent", AGENT);
                if let Some(token) = session {
                    request = request.cookie(&format!("{SESSION}={token}"));
                }
                let answer = visitors.send(&request);
                let text = answer.text();
                if answer.status != 200 {
                    assert!(!text.contains("PRIVATE"), "{host}: {}", answer.beginning());
                    continue;
                }
                answered += 1;
                let is_other = host.to_ascii_lowercase().starts_with("other");
                let wanted = if is_other { "of other.test" } else { "of " };
                assert!(text.contains(wanted), "{host}: {text}");
                assert_eq!(text.contains("other.test"), is_other, "{host}: {text}");
                assert!(!text.contains("evil"), "{host}: {text}");
                let parts = text.matches("PRIVATE-").count();
                let own = session.map(|token| format!("PRIVATE-{token};"));
                let is_own = own.is_none_or(|own| text.contains(&own));
                assert!(
                    is_own && parts == usize::from(session.is_some()),
                    "{host}: {text}"
                );
            }
            visitors.assert_public("/page", host);
        }
        let other = visitors.member("one", "/page").text();
        assert!(
            other.contains(&format!("of {HOST}")),
            "round {round}: {other}"
        );
    }
    assert!(answered > 60, "{answered} were answered with a page");
}

/// Descriptions of a page's private part that are not so; each has its own path.
fn senseless(page: &Page) -> Vec<(&'static str, Vec<String>)> {
    let mut all = senseless_words(page);
    all.extend(senseless_places(page));
    all
}

/// One part in words that mean nothing, or behind the end.
fn senseless_words(page: &Page) -> Vec<(&'static str, Vec<String>)> {
    let (start, length) = (page.before.len(), page.private.len());
    let one = |field: String| vec![field];
    let huge = "n".repeat(9000);
    vec![
        ("/none", Vec::new()),
        (
            "/unknown-scope",
            one(format!("bar {start} {length} - private-all mb")),
        ),
        (
            "/no-scope",
            one(format!("bar {start} {length} - private- mb")),
        ),
        (
            "/upper-case",
            one(format!("bar {start} {length} - PRIVATE-PAGE mb")),
        ),
        (
            "/path",
            one(format!(
                "../../etc/passwd {start} {length} - private-page mb"
            )),
        ),
        (
            "/unicode",
            one(format!(
                "b\u{e4}r\u{202e} {start} {length} - private-page mb"
            )),
        ),
        (
            "/huge",
            one(format!("{huge} {start} {length} - private-page mb")),
        ),
        (
            "/behind-the-end",
            one(format!("bar {start} 99999999 - private-page mb")),
        ),
        (
            "/overflow",
            one(format!(
                "bar {start} 18446744073709551615 - private-page mb"
            )),
        ),
        ("/unclosed", one(format!("bar {start}"))),
        (
            "/everything",
            one(format!("bar {start} {length} - private-page *")),
        ),
    ]
}

/// Several parts at places that do not fit run_concurrently, or at others than the page has.
fn senseless_places(page: &Page) -> Vec<(&'static str, Vec<String>)> {
    let (start, length) = (page.before.len(), page.private.len());
    let one = |field: String| vec![field];
    let many = |count: usize| {
        let part = |number| format!("part{number} {start} 0 - private-page mb");
        (0..count).map(part).collect()
    };
    vec![
        (
            "/nested",
            vec![
                format!("bar {start} {length} - private-page mb"),
                format!("inner {start} 0 - private-page mb"),
            ],
        ),
        (
            "/backwards",
            vec![
                format!("bar {start} {length} - private-page mb"),
                "inner 2 2 - private-page mb".to_owned(),
            ],
        ),
        (
            "/twice",
            vec![
                page.field("bar"),
                format!("bar {} 0 - private-page mb", start + length),
            ],
        ),
        ("/other-name", one(page.field("toolbar"))),
        (
            "/other-bytes",
            one(format!("bar {} {length} - private-page mb", start - 3)),
        ),
        ("/too-many", many(65)),
        ("/many", many(64)),
        (
            "/everything-private",
            one(format!("bar 0 {} - private-page mb", page.text().len())),
        ),
    ]
}

/// Such a description is in the page for members, in the one for strangers, or in both.
#[test]
fn descriptions_that_make_no_sense_show_nobody_what_is_not_theirs() {
    for of in ["member", "shared", "both"] {
        let origin = origin(move |seen, page| {
            let kind = seen.field("galley-request").unwrap_or_default();
            let mut all = senseless(page).into_iter();
            let found = all.find(|(path, _)| *path == seen.path());
            found
                .map(|(_, fields)| fields)
                .filter(|_| of == "both" || of == kind)
        });
        let site = site(&origin);
        let mut visitors = Visitors::new(&site);
        let nobody = Page {
            before: String::from("<html>"),
            private: String::new(),
        };
        let paths: Vec<&str> = senseless(&nobody).iter().map(|(path, _)| *path).collect();
        for path in paths.iter().chain(&["/fine"]) {
            let mut assembled = 0;
            for _ in 0..3 {
                visitors.assert_public(path, path);
                for token in ["one", "two"] {
                    let answer = visitors.assert_own(token, path, path);
                    let text = answer.text();
                    let is_whole = text.starts_with("<html><body><p>of ") && text.ends_with(AFTER);
                    assert!(is_whole, "{of} {path}: {}\n{text}", answer.beginning());
                    assembled += usize::from(is_assembled(&answer));
                }
            }
            if *path == "/fine" {
                assert!(assembled > 0, "no page is assembled");
            }
        }
    }
}
