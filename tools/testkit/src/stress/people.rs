//! The people and programs beside a crawl. Each has an address of its own, in a /24 of its own.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::editor::Editor;
use super::site::{HOST, StressSite};
use super::visitor::{raise_priority, restore_priority};
use crate::client::{Connection, Response};
use crate::growth::load::percentile;
use crate::wait::pause;

/// Those who request something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A new visitor of a stored page.
    Stored,
    /// A new visitor of a page that is not stored. Does what the page says if it is the challenge.
    NotStored,
    /// The same, of a filter address.
    Filter,
    /// One of the two, if refused, after another page with its style sheet.
    Returned,
    /// Puts a product into the cart, and orders it.
    Buyer,
    Editor,
    /// Logs in, from a new address. Its browser loads the style sheet of the form first.
    Login,
    Feed,
    /// Googlebot, from an address on the list.
    TrueBot,
    /// Another program with that name.
    FalseBot,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Stored => "new visitors, stored page",
            Self::NotStored => "new visitors, page not stored",
            Self::Filter => "new visitors, first page is a filter",
            Self::Returned => "refused ones after another page",
            Self::Buyer => "buyers, cart and order",
            Self::Editor => "editor's save",
            Self::Login => "editor's login",
            Self::Feed => "feed readers",
            Self::TrueBot => "Googlebot",
            Self::FalseBot => "false Googlebot",
        }
    }
}

/// What the requests of one kind got.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    pub(super) times: Vec<Duration>,
    pub(super) refused: u64,
}

/// By kind.
#[derive(Debug, Default)]
pub(super) struct Results(pub(super) BTreeMap<Kind, Served>);

impl Results {
    fn add(&mut self, kind: Kind, time: Option<Duration>) {
        let served = self.0.entry(kind).or_default();
        match time {
            Some(time) => served.times.push(time),
            None => served.refused += 1,
        }
    }

    pub(super) fn requests(&self) -> u64 {
        let of = |served: &Served| served.times.len() as u64 + served.refused;
        self.0.values().map(of).sum()
    }

    /// A percentile of the times; `None` if nobody was served.
    pub(super) fn time(&self, kind: Kind, percent: usize) -> Option<Duration> {
        let mut times = self.0.get(&kind)?.times.clone();
        times.sort_unstable();
        (!times.is_empty()).then(|| percentile(&times, percent))
    }

    pub(super) fn merged(mut self, other: Self) -> Self {
        for (kind, served) in other.0 {
            let all = self.0.entry(kind).or_default();
            all.times.extend(served.times);
            all.refused += served.refused;
        }
        self
    }
}

pub(super) struct People<'s> {
    site: &'s StressSite,
    editor: Editor,
    /// People so far, over all threads.
    next: &'s AtomicU64,
}

impl<'s> People<'s> {
    pub(super) fn new(site: &'s StressSite, editor: Editor, next: &'s AtomicU64) -> Self {
        Self { site, editor, next }
    }

    /// Sends requests of all kinds for some time. New visitors of stored pages and of filters have a thread each. All others come one
    /// after the other on a third, so that they wait for the crawl and not for each other.
    pub(super) fn watch(&mut self, length: Duration) -> Results {
        let person = |kind| Person {
            site: self.site,
            address: address(self.next.fetch_add(1, Ordering::Relaxed)),
            number: self.next.load(Ordering::Relaxed),
            kind,
        };
        let until = Instant::now() + length;
        let turns = |between: Duration, turn: &mut dyn FnMut(&mut Results)| {
            let raised = raise_priority();
            let mut results = Results::default();
            while Instant::now() < until {
                turn(&mut results);
                pause(between);
            }
            restore_priority(raised);
            results
        };
        let editor = &mut self.editor;
        thread::scope(|scope| {
            let threads = [
                scope.spawn(|| {
                    turns(Duration::from_millis(20), &mut |results| {
                        person(Kind::Stored).come(results);
                    })
                }),
                scope.spawn(|| {
                    turns(Duration::from_secs(1), &mut |results| {
                        person(Kind::Filter).come(results);
                    })
                }),
            ];
            let mut number = 0_usize;
            let mut all = turns(BETWEEN, &mut |results| {
                person(Kind::NotStored).come(results);
                person(Kind::Buyer).come(results);
                results.add(Kind::Editor, editor.save(number as u64).ok());
                person(Kind::Login).come(results);
                // Their times have no goal.
                if let Some(kind) = RARE.get(number % (RARE.len() + 1)) {
                    person(*kind).come(results);
                }
                number += 1;
            });
            for results in threads.into_iter().filter_map(|thread| thread.join().ok()) {
                all = all.merged(results);
            }
            all
        })
    }
}

/// One of them.
struct Person<'s> {
    site: &'s StressSite,
    address: Ipv4Addr,
    number: u64,
    kind: Kind,
}

impl Person<'_> {
    fn come(&self, results: &mut Results) {
        let number = self.number;
        let unique = format!("/catalog/person-{number}/");
        match self.kind {
            Kind::Stored => self.get(results, &self.site.page(number), ""),
            Kind::NotStored => self.open_or_return(results, &unique),
            Kind::Feed => self.get(results, &format!("/feed/?reader={number}"), ""),
            Kind::FalseBot => self.get(results, &unique, GOOGLEBOT),
            Kind::TrueBot => {
                let listed = Person {
                    address: LISTED,
                    ..*self
                };
                listed.get(results, &unique, GOOGLEBOT);
            }
            Kind::Filter | Kind::Returned => {
                let path = format!("/shop/?filter_color=person-{number}");
                self.open_or_return(results, &path);
            }
            Kind::Buyer => {
                self.visit();
                for path in ["/cart/", "/checkout/"] {
                    let request = chromium("POST", path, &format!("{CART}{FORM}"), "add=1");
                    results.add(self.kind, self.timed(&request));
                }
            }
            Kind::Login => {
                self.send(&chromium("GET", "/wp-login.php", "", ""));
                self.send(&chromium("GET", STYLE, "", ""));
                let (user, password) = (&self.site.wordpress.user, &self.site.wordpress.password);
                let form = format!("log={user}&pwd={password}&wp-submit=Log+In&testcookie=1");
                let fields = format!("Cookie: wordpress_test_cookie=WP%20Cookie%20check\r\n{FORM}");
                let request = chromium("POST", "/wp-login.php", &fields, &form);
                let started = Instant::now();
                let status = self.send(&request).map(|response| response.status);
                let time = (status == Some(302)).then(|| started.elapsed());
                results.add(self.kind, time);
            }
            // The editor keeps one session.
            Kind::Editor => {}
        }
    }

    fn get(&self, results: &mut Results, path: &str, fields: &str) {
        results.add(self.kind, self.timed(&chromium("GET", path, fields, "")));
    }

    /// Opens a page. A person who is refused opens another page, and then this one again.
    fn open_or_return(&self, results: &mut Results, path: &str) {
        let request = chromium("GET", path, "", "");
        let time = self.open(&request);
        results.add(self.kind, time);
        if time.is_none() {
            self.visit();
            results.add(Kind::Returned, self.timed(&request));
        }
    }

    /// Opens a page, and does what the challenge says if there is one.
    fn open(&self, request: &str) -> Option<Duration> {
        let started = Instant::now();
        let mut response = self.send(request);
        for _ in 0..REFRESHES {
            let Some(sheet) = response.as_ref().and_then(style_of_challenge) else {
                break;
            };
            self.send(&chromium("GET", &sheet, "", ""));
            pause(REFRESH);
            response = self.send(request);
        }
        (response?.status == 200).then(|| started.elapsed())
    }

    /// Opens a stored page and its style sheet, as a browser does.
    fn visit(&self) {
        self.send(&chromium("GET", "/", "", ""));
        self.send(&chromium("GET", STYLE, "", ""));
    }

    fn timed(&self, request: &str) -> Option<Duration> {
        let started = Instant::now();
        let response = self.send(request)?;
        (response.status == 200).then(|| started.elapsed())
    }

    fn send(&self, request: &str) -> Option<Response> {
        send(self.site.addr(), self.address, request)
    }
}

/// The response to a request from an address.
pub(super) fn send(addr: SocketAddr, from: Ipv4Addr, request: &str) -> Option<Response> {
    let mut connection = Connection::from_address(from, addr, TIMEOUT).ok()?;
    connection.write(request.as_bytes()).ok()?;
    let method = request.split(' ').next().unwrap_or("GET");
    connection.receive(method).ok()
}

/// The style sheet of the page of `crawl_challenge`; `None`: this is another response.
fn style_of_challenge(response: &Response) -> Option<String> {
    let text = response.text();
    let (_, after) = text.split_once("href=\"/galley-visit/")?;
    let (name, _) = after.split_once('"')?;
    (response.status != 200).then(|| format!("/galley-visit/{name}"))
}

/// The address of person `number`.
fn address(number: u64) -> Ipv4Addr {
    let [_, _, high, low] = u32::try_from(number).unwrap_or(0).to_be_bytes();
    Ipv4Addr::new(127, 192 + high % 48, low, 1)
}

/// A request as Chromium sends it without TLS.
pub(super) fn chromium(method: &str, path: &str, fields: &str, body: &str) -> String {
    let agent = if fields.contains("User-Agent") {
        ""
    } else {
        AGENT
    };
    let length = match body.len() {
        0 => String::new(),
        length => format!("Content-Length: {length}\r\n"),
    };
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: keep-alive\r\n{length}Upgrade-Insecure-Requests: 1\r\n{agent}\
         Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8\r\n\
         Accept-Encoding: gzip, deflate\r\nAccept-Language: en-US,en;q=0.9\r\n{fields}\r\n{body}"
    )
}

/// The pause after each turn.
const BETWEEN: Duration = Duration::from_millis(50);

/// Who comes less often.
const RARE: [Kind; 3] = [Kind::Feed, Kind::TrueBot, Kind::FalseBot];

/// A browser's patience.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What the challenge asks of a browser, and how often a person looks on.
const REFRESH: Duration = Duration::from_secs(3);
const REFRESHES: usize = 3;

pub(super) const STYLE: &str = "/wp-includes/css/dashicons.min.css";
pub(super) const CART: &str = "Cookie: woocommerce_items_in_cart=1\r\n";
pub(super) const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";
const GOOGLEBOT: &str =
    "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)\r\n";
const AGENT: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n";

/// An address on the list of Googlebot's.
pub(super) const LISTED: Ipv4Addr = Ipv4Addr::new(127, 250, 0, 1);
