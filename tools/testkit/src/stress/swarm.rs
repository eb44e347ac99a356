//! A crawl of a shop's filters from 70,000 addresses, each with one request and the header fields of Chromium, beside people.
//!
//! PHP has two workers. The crawl comes at three rates, then in the forms of an attacker who knows how Galley tells people from
//! crawlers, then with `crawl_challenge`. People of each kind ([`People`]) send their requests before it and beside it. The
//! report has a row for each kind and load, with the goal where there is one. A short run has the crawls of filters for a few
//! seconds and judges no time.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::editor::Editor;
use super::people::{CART, FORM, Kind, LISTED, People, Results, STYLE, chromium, send};
use super::report::Goal;
use super::site::StressSite;
use super::visitor::lower_priority;
use super::{PartReport, RunLength, StressSettings};
use crate::TestkitError;
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
    /// The same from few networks.
    NoQueryNetworks,
    /// Feeds.
    Feeds,
    /// Password guesses.
    Logins,
}

impl Attack {
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
            Self::NoQuery | Self::NoQueryNetworks => {
                vec![page(&format!("/catalog/crawl-{number}/"), "")]
            }
            Self::Feeds => vec![page(&format!("/feed/?crawl={number}"), "")],
            Self::Logins => {
                let form = format!("log=admin&pwd={number}");
                vec![chromium("POST", "/wp-login.php", FORM, &form)]
            }
        }
    }

    /// The address of request `number`: 70,000 of them take turns. They are in 40,960 networks, as those of a botnet, or in 274.
    fn address(self, number: u64) -> Ipv4Addr {
        let number = u32::try_from(number % ADDRESSES).unwrap_or(0);
        let first = Ipv4Addr::new(127, 16, 0, 1).to_bits();
        Ipv4Addr::from_bits(match self {
            Self::NoQueryNetworks => first + number,
            _ => first + (number % NETWORKS) * 256 + number / NETWORKS,
        })
    }
}

/// A crawl, and whether `crawl_challenge` is on.
#[derive(Clone, Copy, Debug)]
struct Load {
    per_second: u64,
    attack: Attack,
    challenge: bool,
    /// In a long run.
    seconds: u64,
}

impl Load {
    const fn new(per_second: u64, attack: Attack, seconds: u64) -> Self {
        Self {
            per_second,
            attack,
            challenge: false,
            seconds,
        }
    }

    const fn challenged(self) -> Self {
        Self {
            challenge: true,
            ..self
        }
    }

    fn title(&self) -> String {
        let challenge = if self.challenge { ", challenge" } else { "" };
        format!("{:?}, {} a second{challenge}", self.attack, self.per_second)
    }
}

/// With the start, the quiet time before and a pause after each, under twelve minutes. Those with the challenge are last.
const LOADS: [Load; 12] = [
    Load::new(11, Attack::Filters, 50),
    Load::new(30, Attack::Filters, 50),
    Load::new(300, Attack::Filters, 50),
    Load::new(30, Attack::StyleSheet, 30),
    Load::new(30, Attack::Cart, 30),
    Load::new(30, Attack::NoQuery, 30),
    Load::new(30, Attack::NoQueryNetworks, 30),
    Load::new(30, Attack::Feeds, 30),
    Load::new(30, Attack::Logins, 30),
    Load::new(30, Attack::Filters, 50).challenged(),
    Load::new(300, Attack::Filters, 50).challenged(),
    Load::new(30, Attack::NoQuery, 30).challenged(),
];

pub(super) fn run(settings: &StressSettings) -> Result<PartReport, TestkitError> {
    let list = format!("crawlers = {{ Googlebot = \"FOLDER/{LIST}\" }}");
    let files = [(LIST, format!("{LISTED}/32\n"))];
    let site = StressSite::with_shop(settings, "1h", SHOP, &list, &files)?;
    let mut report = PartReport {
        title: "a crawl from 70,000 addresses, two PHP workers".to_owned(),
        usage: [site.usage(); 2],
        ..PartReport::default()
    };
    let (people, next) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut people = People::new(&site, Editor::log_in(&site)?, &people);
    // Somebody loads a file, and Galley and PHP warm up.
    people.watch(Duration::from_secs(settings.length.pick(1, 5)));
    (settings.progress)("quiet");
    let quiet = people.watch(Duration::from_secs(settings.length.pick(4, 50)));
    note(&mut report, "quiet", &quiet);
    let mut is_challenging = false;
    let is_short = settings.length == RunLength::Short;
    let loads = LOADS.iter();
    for load in loads.filter(|load| !is_short || load.attack == Attack::Filters) {
        if load.challenge && !is_challenging {
            site.reload_with("crawl_challenge = true")?;
            is_challenging = true;
        }
        (settings.progress)(&load.title());
        let length = Duration::from_secs(settings.length.pick(2, load.seconds));
        let (results, crawl) = under(&site, &mut people, &next, load, length);
        note(&mut report, &load.title(), &results);
        judge(&mut report, load, settings.length, &quiet, &results);
        report.goals.push(reported(
            &load.title(),
            "the crawl, by status",
            format!("{crawl:?}"),
        ));
        // What waits in the queue is not part of the next load.
        pause(Duration::from_secs(settings.length.pick(0, 3)));
    }
    report.page.quiet = quiet.time(Kind::Stored, 99);
    report.save.quiet = quiet.time(Kind::Editor, 95);
    site.close(&mut report);
    Ok(report)
}

/// The people's results, and the crawl's statuses, while the crawl runs.
fn under(
    site: &StressSite,
    people: &mut People<'_>,
    next: &AtomicU64,
    load: &Load,
    length: Duration,
) -> (Results, BTreeMap<u16, u64>) {
    let (is_over, addr) = (&AtomicBool::new(false), site.addr());
    let (started, first) = (Instant::now(), next.load(Ordering::Relaxed));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                scope.spawn(move || {
                    lower_priority();
                    let mut statuses = BTreeMap::new();
                    while !is_over.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let due = (number - first) * 1_000_000 / load.per_second;
                        let due = started + Duration::from_micros(due);
                        pause(due.saturating_duration_since(Instant::now()));
                        let status = crawl(addr, load.attack, number);
                        *statuses.entry(status).or_insert(0) += 1;
                    }
                    statuses
                })
            })
            .collect();
        let results = people.watch(length);
        is_over.store(true, Ordering::Relaxed);
        let mut all = BTreeMap::new();
        for statuses in clients.into_iter().filter_map(|client| client.join().ok()) {
            for (status, count) in statuses {
                *all.entry(status).or_insert(0) += count;
            }
        }
        (results, all)
    })
}

/// The status of the last request of address `number`; 0 without a response.
fn crawl(addr: SocketAddr, attack: Attack, number: u64) -> u16 {
    let from = attack.address(number);
    let mut last = None;
    for request in attack.requests(number) {
        last = send(addr, from, &request);
    }
    last.map_or(0, |response| response.status)
}

fn note(report: &mut PartReport, title: &str, results: &Results) {
    report.requests += results.requests();
    for (kind, served) in &results.0 {
        let ms = |percent| results.time(*kind, percent).unwrap_or_default().as_millis();
        report.notes.push(format!(
            "{title}: {}: {} served, {} refused, median {} ms, 95 % {} ms, 99 % {} ms",
            kind.word(),
            served.times.len(),
            served.refused,
            ms(50),
            ms(95),
            ms(99)
        ));
    }
}

/// Adds a row for each kind. Goals are for crawls of filters; what else an attacker gets is reported.
fn judge(
    report: &mut PartReport,
    load: &Load,
    length: RunLength,
    quiet: &Results,
    results: &Results,
) {
    let (title, is_judged) = (&load.title(), load.attack == Attack::Filters);
    for (kind, served) in &results.0 {
        let all = served.times.len() as u64 + served.refused;
        let result = format!("{} of {all} refused", served.refused);
        // A crawler without proof and a person without a visit share what the crawl leaves.
        let is_kept = match kind {
            Kind::FalseBot => None,
            Kind::Filter => load.challenge.then_some(served.refused == 0),
            _ => Some(served.refused == 0),
        };
        report.goals.push(Goal {
            load: title.clone(),
            what: kind.word().to_owned(),
            goal: is_kept.map_or("", |_| "none refused").to_owned(),
            result,
            is_kept: is_kept.filter(|_| is_judged),
        });
    }
    let is_timed = is_judged && length == RunLength::Long;
    let longest = results.time(Kind::Filter, 100).filter(|_| load.challenge);
    if let Some(longest) = longest {
        report.goals.push(Goal {
            load: title.clone(),
            what: format!("{}, slowest", Kind::Filter.word()),
            goal: "6 s".to_owned(),
            result: format!("{:.1} s", longest.as_secs_f64()),
            is_kept: is_timed.then_some(longest <= PATIENCE),
        });
    }
    for (kind, percent, most) in [
        (Kind::Stored, 99, 1.5),
        (Kind::NotStored, 95, 2.0),
        (Kind::Buyer, 95, 1.3),
        (Kind::Editor, 95, 1.3),
    ] {
        let times = [quiet, results].map(|results| results.time(kind, percent));
        let [Some(before), Some(loaded)] = times else {
            continue;
        };
        let [before, loaded] = [before, loaded].map(|time| time.as_secs_f64() * 1e3);
        let ratio = loaded / before.max(1e-3);
        report.goals.push(Goal {
            load: title.clone(),
            what: format!("{}, {percent} %", kind.word()),
            goal: format!("{most} times quiet"),
            result: format!("{ratio:.1} times: {before:.1} ms, {loaded:.1} ms"),
            is_kept: is_timed.then_some(ratio <= most),
        });
    }
}

fn reported(load: &str, what: &str, result: String) -> Goal {
    Goal {
        load: load.to_owned(),
        what: what.to_owned(),
        goal: String::new(),
        result,
        is_kept: None,
    }
}

const ADDRESSES: u64 = 70_000;
const NETWORKS: u32 = 40_960;

/// As many as 30 requests a second that wait for ten seconds need: the crawl does not wait for itself.
const CONNECTIONS: usize = 300;

/// How long a person waits for the page behind the challenge.
const PATIENCE: Duration = Duration::from_secs(6);

/// The list of Googlebot's addresses.
const LIST: &str = "googlebot.txt";

/// A shop with four filters, a catalog, a cart and a checkout.
const SHOP: &str = "<?php
add_action( 'wp_loaded', function () {
	$path = strtok( $_SERVER['REQUEST_URI'], '?' );
	if ( ! preg_match( '#^/(shop/$|catalog/|cart/$|checkout/$)#', $path ) ) {
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
