//! Attacks on private fragments: the lists of `poison` and `deception`, session ids of other members, and other spellings of the host.
//!
//! The origin prints all fields of the request in the private part of a page.

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};

use crate::poison::{Kind, attempts};
use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite};
use crate::wordpress::deception::addresses;

const SESSION: &str = "wordpress_logged_in_0a";
const AGENT: &str = "browser";

/// A page with one private part, which is empty for anonymous visitors.
pub struct Page {
    pub before: String,
    pub private: String,
}

pub const AFTER: &str = "</p></body></html>";

impl Page {
    fn for_request(request: &ReceivedRequest) -> Self {
        let host = request.field("host").unwrap_or_default();
        let private = owner(request.field("cookie").unwrap_or_default()).map(|owner| {
            let fields = request.fields.iter();
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

    pub fn text(&self) -> String {
        format!("{}{}{AFTER}", self.before, self.private)
    }

    /// The `Galley-Fragment` field for the private part.
    pub fn fragment_field(&self, name: &str) -> String {
        let (start, length) = (self.before.len(), self.private.len());
        format!("{name} {start} {length} - private-page mb")
    }
}

/// The value of the first session cookie, which is the one that PHP uses.
fn owner(cookies: &str) -> Option<&str> {
    let mut pairs = cookies.split(';').map(str::trim_start);
    let found = pairs.find_map(|pair| pair.strip_prefix(SESSION)?.strip_prefix('='));
    found.filter(|owner| !owner.is_empty())
}

/// The fields that the plugin sends with a page.
struct PluginFields {
    fragments: Vec<String>,
    member_class: Option<&'static str>,
}

/// An origin with the plugin. `describe` may replace the fragment fields of a page.
pub fn origin(
    describe: impl Fn(&ReceivedRequest, &Page) -> Option<Vec<String>> + Send + Sync + 'static,
) -> Origin {
    let script = move |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
        let page = Page::for_request(request);
        let kind = request.field("galley-request").unwrap_or_default();
        let plugin_fields = PluginFields {
            fragments: describe(request, &page).unwrap_or_else(|| vec![page.fragment_field("bar")]),
            member_class: (kind == "member" && !page.private.is_empty()).then_some("subscriber-1"),
        };
        send_page(writer, kind, &page, &plugin_fields);
    };
    Origin::start_unrecorded(script).unwrap()
}

fn send_page(
    writer: &mut ResponseWriter<'_>,
    kind: &str,
    page: &Page,
    plugin_fields: &PluginFields,
) {
    let mut fields = vec![("content-type", "text/html; charset=utf-8")];
    if kind == "shared" {
        fields.push(("galley-cache-control", "max-age=3600"));
        fields.push(("galley-tags", "b"));
    }
    if let Some(class) = plugin_fields.member_class {
        fields.push(("galley-member", class));
    }
    if kind == "shared" || kind == "member" {
        fields.extend(
            plugin_fields
                .fragments
                .iter()
                .map(|field| ("galley-fragment", field.as_str())),
        );
    }
    // Chunks that end within tags, names and the private part.
    if writer.chunked(200, &fields) {
        for chunk in page.text().as_bytes().chunks(7) {
            writer.chunk(chunk);
        }
        writer.last_chunk();
    }
}

pub fn site(origin: &Origin) -> TestSite {
    SiteBuilder::origin(origin, "wordpress")
        .site("members = \"fragments\"")
        .server("limit_exempt = [\"127.0.0.1\"]")
        .start()
}

/// Sends the requests of all visitors over one connection, as long as it stays open.
pub struct SharedConnection<'s> {
    site: &'s TestSite,
    connection: Option<Connection>,
}

impl<'s> SharedConnection<'s> {
    pub fn new(site: &'s TestSite) -> Self {
        Self {
            site,
            connection: None,
        }
    }

    /// Sends a request, and asserts that no `Galley-*` field is in the response.
    fn send(&mut self, request: &Request) -> Response {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::within(self.site.addr(), TIMEOUT).unwrap(),
        };
        let response = connection.exchange(request).unwrap();
        let is_closed = response
            .field("connection")
            .is_some_and(|option| option.contains("close"));
        if !is_closed {
            self.connection = Some(connection);
        }
        for (name, _) in &response.fields {
            let name = name.to_ascii_lowercase();
            assert!(!name.starts_with("galley-"), "{}", response.excerpt());
        }
        response
    }

    fn get_anonymous(&mut self, target: &str) -> Response {
        self.send(&plain(target))
    }

    fn get_as_member(&mut self, token: &str, target: &str) -> Response {
        self.send(&plain(target).cookie(&format!("{SESSION}={token}")))
    }

    /// Asserts that an anonymous visitor gets a page without private content.
    #[track_caller]
    pub fn assert_public(&mut self, target: &str, after: &str) {
        let response = self.get_anonymous(target);
        let (text, is_clean) = (response.text(), !has_canary(&response));
        let is_public = !text.contains("PRIVATE") && is_clean;
        assert!(is_public, "after {after}: {}\n{text}", response.excerpt());
    }

    /// Asserts that a member gets only their own private part.
    #[track_caller]
    pub fn assert_own(&mut self, token: &str, target: &str, after: &str) -> Response {
        let response = self.get_as_member(token, target);
        let (text, is_clean) = (response.text(), !has_canary(&response));
        let parts = text.matches("PRIVATE-").count();
        let is_own = parts == 1 && text.contains(&format!("PRIVATE-{token};")) && is_clean;
        assert!(is_own, "after {after}: {}\n{text}", response.excerpt());
        response
    }
}

fn plain(target: &str) -> Request {
    Request::get(target).host(HOST).field("User-Agent", AGENT)
}

/// Whether the head or the body contains a canary.
fn has_canary(response: &Response) -> bool {
    let text = format!("{}{}", response.excerpt(), response.text()).to_ascii_lowercase();
    text.contains("canary") && text.contains("evil.test")
}

pub fn is_assembled(response: &Response) -> bool {
    response.cache_status().contains("detail=assembled")
}

/// Fields that only Galley and the plugin may send to each other, and fields that may contain hosts or sessions.
const FORGED_FIELDS: &[(&str, &str)] = &[
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
fn request_values_of_a_member_never_reach_other_visitors() {
    let origin = origin(|_, _| None);
    let site = site(&origin);
    let mut client = SharedConnection::new(&site);
    // The canary is in the member's own page, because the request bypasses the cache.
    let own = plain("/own?canary.evil.test").cookie(&format!("{SESSION}=one; x=canary.evil.test"));
    assert!(has_canary(&client.send(&own)));

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
    let forged = FORGED_FIELDS.iter().map(|&(name, value)| {
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
    for (number, (name, forged)) in listed.chain(forged).enumerate() {
        let path = format!("/page-{number}");
        // The forged request is sent before the page is stored, while pages of members are compared, and after the page is stored.
        let order: &[&str] = match number % 3 {
            0 => &["forged", "anonymous", "other"],
            1 => &["anonymous", "forged", "other", "anonymous"],
            _ => &["anonymous", "other", "forged", "other", "anonymous"],
        };
        for sender in order {
            match *sender {
                "forged" => drop(client.send(&forged(&path, "one"))),
                "anonymous" => client.assert_public(&path, name),
                _ => {
                    let own = client.assert_own("two", &path, name);
                    assembled += usize::from(is_assembled(&own));
                }
            }
        }
    }
    // Otherwise the test did not exercise assembled pages.
    assert!(assembled > 400, "{assembled} pages were assembled");
}

#[test]
fn urls_that_look_like_files_show_no_private_content() {
    let origin = origin(|_, _| None);
    let site = site(&origin);
    let mut client = SharedConnection::new(&site);
    let mut personal = 0;
    for target in addresses() {
        // The member's request is the first one, so its response must not be stored as a public page.
        let own = client.get_as_member("one", &target);
        personal += usize::from(own.text().contains("PRIVATE-one;"));
        assert!(!own.cache_status().contains("stored"), "{}", own.excerpt());
        client.assert_public(&target, &target);
        let again = client.get_as_member("one", &target);
        assert!(!again.text().contains("PRIVATE-two"), "{target}");
        let other = client.get_as_member("two", &target);
        assert!(!other.text().contains("PRIVATE-one"), "{target}");
        client.assert_public(&target, &target);
    }
    assert!(
        personal > 30,
        "{personal} pages had the private part of the member"
    );
}

#[test]
fn the_first_session_cookie_decides_whose_page_is_sent() {
    let origin = origin(|_, _| None);
    let site = site(&origin);
    let mut client = SharedConnection::new(&site);
    client.assert_public("/page", "nothing");
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
        // Each round has another order, so that each cookie follows different ones.
        for number in 0..cookies.len() {
            let cookies = &cookies[(number * (2 * round + 1) + round) % cookies.len()];
            let response = client.send(&plain("/page").cookie(cookies));
            let text = response.text();
            let shown = text.split_once("PRIVATE-").map(|(_, rest)| rest);
            let shown = shown.and_then(|rest| rest.split_once(';'));
            let shown = shown.map(|(owner, _)| owner);
            assert_eq!(
                shown,
                owner(cookies),
                "{cookies:.80}: {}",
                response.excerpt()
            );
            assembled += usize::from(is_assembled(&response));
            if number % 5 == 0 {
                client.assert_public("/page", cookies);
            }
        }
    }
    assert!(assembled > 30, "{assembled} pages were assembled");
}

#[test]
fn other_spellings_of_the_host_get_the_same_site_or_an_error() {
    let origin = origin(|_, _| None);
    let more = format!(
        "[[site]]\nhosts = [\"other.test\"]\npreset = \"wordpress\"\nmembers = \"fragments\"\nupstream = [\"{}\"]",
        origin.url()
    );
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("members = \"fragments\"")
        .more(&more)
        .start();
    let mut client = SharedConnection::new(&site);
    for target in ["/page", "/PAGE"] {
        client.assert_public(target, "nothing");
    }
    let upper = HOST.to_ascii_uppercase();
    let hosts = [
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
    let mut pages = 0;
    for round in 0..3 {
        for host in &hosts {
            for session in [None, Some("one"), Some("two")] {
                let mut request = Request::get("/page").host(host).field("User-Agent", AGENT);
                if let Some(token) = session {
                    request = request.cookie(&format!("{SESSION}={token}"));
                }
                let response = client.send(&request);
                let text = response.text();
                if response.status != 200 {
                    assert!(!text.contains("PRIVATE"), "{host}: {}", response.excerpt());
                    continue;
                }
                pages += 1;
                let is_other = host.to_ascii_lowercase().starts_with("other");
                let expected = if is_other { "of other.test" } else { "of " };
                assert!(text.contains(expected), "{host}: {text}");
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
            client.assert_public("/page", host);
        }
        let other = client.get_as_member("one", "/page").text();
        assert!(
            other.contains(&format!("of {HOST}")),
            "round {round}: {other}"
        );
    }
    assert!(pages > 60, "{pages} requests got a page");
}
