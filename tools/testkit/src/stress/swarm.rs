//! A crawl of a shop's filters from 70,000 addresses, each with one request and the header fields of Chromium, beside people.
//!
//! PHP has two workers. The crawl comes at three rates, and in a long run also in the forms of an attacker who knows how Galley tells
//! people from crawlers. People of each kind send one request after another, each kind in its turn: new visitors of stored pages, of
//! pages that are not stored, and of filter addresses; a buyer; an editor; a feed reader; a program that claims to be Googlebot.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::editor::Editor;
use super::site::{HOST, StressSite};
use super::visitor::{lower_priority, raise_priority, restore_priority};
use super::{PartReport, RunLength, StressSettings};
use crate::TestkitError;
use crate::client::Connection;
use crate::growth::load::percentile;
use crate::wait::pause;

/// What the crawl requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attack {
    /// Filter addresses.
    Filters,
    /// The same after a style sheet, from each address.
    StyleSheet,
    /// The same with the cookie of a cart.
    Cart,
    /// Pages without a query.
    NoQuery,
    /// Feeds.
    Feeds,
    /// Password guesses.
    Logins,
}

impl Attack {
    const ALL: [Self; 6] = [
        Self::Filters,
        Self::StyleSheet,
        Self::Cart,
        Self::NoQuery,
        Self::Feeds,
        Self::Logins,
    ];

    /// The requests that address number `number` sends.
    fn requests(self, number: u64) -> Vec<String> {
        let page = |path: &str, fields: &str| chromium("GET", path, fields, "");
        let filters = format!(
            "/shop/?filter_color=c{number}&filter_size=s{}&filter_brand=b{}&min_price={}",
            number % 7,
            number % 11,
            number % 97
        );
        match self {
            Self::Filters => vec![page(&filters, "")],
            Self::StyleSheet => vec![page(STYLE, ""), page(&filters, "")],
            Self::Cart => vec![page(&filters, CART)],
            Self::NoQuery => vec![page(&format!("/catalog/crawl-{number}/"), "")],
            Self::Feeds => vec![page(&format!("/feed/?crawl={number}"), "")],
            Self::Logins => {
                let form = format!("log=admin&pwd={number}");
                vec![chromium("POST", "/wp-login.php", FORM, &form)]
            }
        }
    }
}

/// The people and programs beside the crawl, in the order in which they take turns.
const KINDS: [Kind; 7] = [
    Kind::Stored,
    Kind::NotStored,
    Kind::Filter,
    Kind::Buyer,
    Kind::Editor,
    Kind::Feed,
    Kind::FalseBot,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Stored,
    NotStored,
    /// A new visitor whose first page is a filter address.
    Filter,
    /// The same visitor after another page with its style sheet.
    Returned,
    Buyer,
    Editor,
    Feed,
    FalseBot,
}

/// What the requests of one kind got.
#[derive(Default)]
struct Served {
    times: Vec<Duration>,
    refused: u64,
}

type Phase = BTreeMap<Kind, Served>;

pub(super) fn run(settings: &StressSettings) -> Result<PartReport, TestkitError> {
    let site = StressSite::with_shop(settings, "1h", SHOP)?;
    let mut report = PartReport {
        title: "a crawl of filters from 70,000 addresses, two PHP workers".to_owned(),
        usage: [site.usage(); 2],
        ..PartReport::default()
    };
    let mut people = People {
        site: &site,
        editor: Editor::log_in(&site)?,
        saves: 0,
        next: 0,
    };
    people.visit(people.address());
    let length = Duration::from_secs(settings.length.pick(8, 60));
    let quiet = people.watch(length);
    note(&mut report, "quiet", &quiet);
    let mut phases: Vec<(u64, Attack)> = [11, 30, 300].map(|rate| (rate, Attack::Filters)).into();
    if settings.length == RunLength::Long {
        phases.extend(Attack::ALL.into_iter().skip(1).map(|attack| (30, attack)));
    }
    let next = AtomicU64::new(0);
    for (per_second, attack) in phases {
        let title = format!("{per_second} a second, {attack:?}");
        (settings.progress)(&title);
        let (phase, crawl) = under(&mut people, &next, per_second, attack, length);
        note(&mut report, &title, &phase);
        report
            .notes
            .push(format!("{title}: the crawl got {crawl:?}"));
        if attack == Attack::Filters {
            judge(&mut report, &title, settings.length, &quiet, &phase);
        }
    }
    report.page.quiet = of(&quiet, Kind::Stored, 99);
    report.save.quiet = of(&quiet, Kind::Editor, 95);
    site.close(&mut report);
    Ok(report)
}

/// The people's results, and the crawl's statuses, while the crawl runs.
fn under(
    people: &mut People<'_>,
    next: &AtomicU64,
    per_second: u64,
    attack: Attack,
    length: Duration,
) -> (Phase, BTreeMap<u16, u64>) {
    let (is_over, addr) = (&AtomicBool::new(false), people.site.addr());
    let (started, first) = (Instant::now(), next.load(Ordering::Relaxed));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                scope.spawn(move || {
                    lower_priority();
                    let mut statuses = BTreeMap::new();
                    while !is_over.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let due = Duration::from_micros((number - first) * 1_000_000 / per_second);
                        pause((started + due).saturating_duration_since(Instant::now()));
                        let requests = attack.requests(number);
                        let status = send(addr, crawler(number), &requests).unwrap_or(0);
                        *statuses.entry(status).or_insert(0) += 1;
                    }
                    statuses
                })
            })
            .collect();
        let phase = people.watch(length);
        is_over.store(true, Ordering::Relaxed);
        let mut all = BTreeMap::new();
        for statuses in clients.into_iter().filter_map(|client| client.join().ok()) {
            for (status, count) in statuses {
                *all.entry(status).or_insert(0) += count;
            }
        }
        (phase, all)
    })
}

/// The status of the last of some requests from an address.
fn send(addr: SocketAddr, from: Ipv4Addr, requests: &[String]) -> Option<u16> {
    let mut connection = Connection::from_address(from, addr, TIMEOUT).ok()?;
    let mut status = None;
    for request in requests {
        connection.write(request.as_bytes()).ok()?;
        let method = request.split(' ').next().unwrap_or("GET");
        status = Some(connection.receive(method).ok()?.status);
    }
    status
}

struct People<'s> {
    site: &'s StressSite,
    editor: Editor,
    saves: u64,
    /// People so far, each with an address of its own.
    next: u64,
}

impl People<'_> {
    /// Sends requests of all kinds in turns.
    fn watch(&mut self, length: Duration) -> Phase {
        let raised = raise_priority();
        let (started, mut phase) = (Instant::now(), Phase::new());
        while started.elapsed() < length {
            for kind in KINDS {
                self.next += 1;
                self.turn(kind, &mut phase);
                pause(BETWEEN);
            }
        }
        restore_priority(raised);
        phase
    }

    fn turn(&mut self, kind: Kind, phase: &mut Phase) {
        let number = self.next;
        let unique = format!("/catalog/person-{number}/");
        match kind {
            Kind::Stored => self.get(phase, kind, &self.site.page(number), ""),
            Kind::NotStored => self.get(phase, kind, &unique, ""),
            Kind::Feed => self.get(phase, kind, &format!("/feed/?reader={number}"), ""),
            Kind::Filter | Kind::Returned => {
                let path = format!("/shop/?filter_color=person-{number}");
                let refused = |phase: &Phase| phase.get(&Kind::Filter).map_or(0, |of| of.refused);
                let before = refused(phase);
                self.get(phase, Kind::Filter, &path, "");
                if refused(phase) > before {
                    self.visit(self.address());
                    self.get(phase, Kind::Returned, &path, "");
                }
            }
            Kind::FalseBot => {
                self.get(phase, kind, &unique, "User-Agent: Googlebot/2.1\r\n");
            }
            Kind::Buyer => {
                self.visit(self.address());
                let request = chromium("POST", "/cart/", &format!("{CART}{FORM}"), "add=1");
                self.send(phase, kind, &request);
            }
            Kind::Editor => {
                self.saves += 1;
                let saved = self.editor.save(self.saves);
                let served = phase.entry(kind).or_default();
                match saved {
                    Ok(took) => served.times.push(took),
                    Err(_) => served.refused += 1,
                }
            }
        }
    }

    fn get(&self, phase: &mut Phase, kind: Kind, path: &str, fields: &str) {
        self.send(phase, kind, &chromium("GET", path, fields, ""));
    }

    fn send(&self, phase: &mut Phase, kind: Kind, request: &str) {
        let started = Instant::now();
        let status = send(self.site.addr(), self.address(), &[request.to_owned()]);
        let served = phase.entry(kind).or_default();
        match status {
            Some(200) => served.times.push(started.elapsed()),
            _ => served.refused += 1,
        }
    }

    /// Opens a stored page and its style sheet, as a browser does.
    fn visit(&self, from: Ipv4Addr) -> Option<u16> {
        let page = chromium("GET", "/", "", "");
        send(
            self.site.addr(),
            from,
            &[page, chromium("GET", STYLE, "", "")],
        )
    }

    /// The address of the current person, in a /24 of its own.
    fn address(&self) -> Ipv4Addr {
        let [_, _, high, low] = u32::try_from(self.next).unwrap_or(0).to_be_bytes();
        Ipv4Addr::new(127, 192 + high % 60, low, 1)
    }
}

/// The address of the crawl's request `number`: 70,000 of them take turns.
fn crawler(number: u64) -> Ipv4Addr {
    let number = u32::try_from(number % ADDRESSES).unwrap_or(0);
    Ipv4Addr::from_bits(Ipv4Addr::new(127, 16, 0, 1).to_bits() + number)
}

/// A request as Chromium sends it without TLS.
fn chromium(method: &str, path: &str, fields: &str, body: &str) -> String {
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

fn of(phase: &Phase, kind: Kind, percent: usize) -> Option<Duration> {
    let mut times = phase.get(&kind)?.times.clone();
    times.sort_unstable();
    (!times.is_empty()).then(|| percentile(&times, percent))
}

fn note(report: &mut PartReport, title: &str, phase: &Phase) {
    for (kind, served) in phase {
        report.requests += served.times.len() as u64 + served.refused;
        let ms = |percent| of(phase, *kind, percent).unwrap_or_default().as_millis();
        report.notes.push(format!(
            "{title}: {kind:?}: {} served, {} refused, median {} ms, 95 % {} ms",
            served.times.len(),
            served.refused,
            ms(50),
            ms(95)
        ));
    }
}

/// Adds a violation for each kind of people that a crawl of filters refused or delayed.
fn judge(report: &mut PartReport, title: &str, length: RunLength, quiet: &Phase, phase: &Phase) {
    for kind in [
        Kind::Stored,
        Kind::NotStored,
        Kind::Returned,
        Kind::Buyer,
        Kind::Editor,
        Kind::Feed,
    ] {
        let refused = phase.get(&kind).map_or(0, |of| of.refused);
        if refused > 0 {
            let violation = format!("{title}: {refused} requests of {kind:?} were refused");
            report.violations.push(violation);
        }
    }
    if length == RunLength::Short {
        return;
    }
    for (kind, percent, most) in [
        (Kind::Stored, 99, 1.5),
        (Kind::NotStored, 95, 2.0),
        (Kind::Buyer, 95, 1.3),
        (Kind::Editor, 95, 1.3),
    ] {
        let (Some(before), Some(loaded)) = (of(quiet, kind, percent), of(phase, kind, percent))
        else {
            continue;
        };
        let ratio = loaded.as_secs_f64() / before.as_secs_f64().max(1e-9);
        if ratio > most {
            let violation =
                format!("{title}: {kind:?} took {ratio:.1} times as long, at most {most} expected");
            report.violations.push(violation);
        }
    }
}

const ADDRESSES: u64 = 70_000;

/// More than PHP answers at once: the crawl never waits for itself.
const CONNECTIONS: usize = 48;

/// The pause between two people.
const BETWEEN: Duration = Duration::from_millis(50);

/// A browser's patience.
const TIMEOUT: Duration = Duration::from_secs(30);

const STYLE: &str = "/wp-includes/css/dashicons.min.css";
const CART: &str = "Cookie: woocommerce_items_in_cart=1\r\n";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";
const AGENT: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n";

/// A shop with four filters, a catalog and a cart.
const SHOP: &str = "<?php
add_action( 'wp_loaded', function () {
	$path = strtok( $_SERVER['REQUEST_URI'], '?' );
	if ( ! preg_match( '#^/(shop/$|catalog/|cart/$)#', $path ) ) {
		return;
	}
	$found = array();
	foreach ( array( 'filter_color', 'filter_size', 'filter_brand', 'min_price' ) as $name ) {
		$value = sanitize_text_field( wp_unslash( $_GET[ $name ] ?? '' ) );
		$query = new WP_Query( array( 's' => $value, 'posts_per_page' => 20, 'cache_results' => false ) );
		foreach ( $query->posts as $post ) {
			$found[ $post->ID ] = apply_filters( 'the_content', $post->post_content );
		}
	}
	echo '<!doctype html><html><head><link rel=stylesheet href=/wp-includes/css/dashicons.min.css><title>Shop</title></head><body>';
	echo esc_html( $path ), implode( '', $found ), '</body></html>';
	exit;
} );
";
