//! A crawl of a shop's filters from 70,000 addresses, each with one request and the header fields of Chromium, beside people.
//!
//! PHP has two workers. The crawl comes at three rates, then in the forms of an attacker who knows how Galley tells people from
//! crawlers, then with `crawl_challenge`. People of each kind ([`People`]) send their requests before it, beside it and after it;
//! what they get without a crawl is the measure of the goals ([`super::verdict`]). A short run has the crawls of filters
//! for a few seconds and judges no time.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::editor::Editor;
use super::people::{CART, FORM, Kind, LISTED, People, Results, STYLE, chromium, send};
use super::site::StressSite;
use super::verdict::{self, CrawlResults, Measured};
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
    /// The same from one /64 of IPv6, as a trusted proxy names it.
    NoQueryIpv6,
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
            Self::NoQueryIpv6 => {
                let client = format!("X-Forwarded-For: 2001:db8::{:x}\r\n", number % 65_536);
                vec![page(&format!("/catalog/crawl-{number}/"), &client)]
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
            Self::NoQueryIpv6 => PROXY.to_bits(),
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

/// With the start, the time without a crawl and a pause after each, under twelve minutes. Those with the challenge are last.
const LOADS: [Load; 13] = [
    Load::new(11, Attack::Filters, 50),
    Load::new(30, Attack::Filters, 50),
    Load::new(300, Attack::Filters, 50),
    Load::new(30, Attack::StyleSheet, 20),
    Load::new(30, Attack::Cart, 20),
    Load::new(30, Attack::NoQuery, 20),
    Load::new(30, Attack::NoQueryNetworks, 20),
    Load::new(30, Attack::NoQueryIpv6, 20),
    Load::new(30, Attack::Feeds, 20),
    Load::new(30, Attack::Logins, 20),
    Load::new(30, Attack::Filters, 50).challenged(),
    Load::new(300, Attack::Filters, 50).challenged(),
    Load::new(30, Attack::NoQuery, 20).challenged(),
];

pub(super) fn run(settings: &StressSettings) -> Result<PartReport, TestkitError> {
    let server =
        format!("crawlers = {{ Googlebot = \"FOLDER/{LIST}\" }}\ntrusted_proxies = [\"{PROXY}\"]");
    let files = [(LIST, format!("{LISTED}/32\n"))];
    let site = StressSite::with_shop(settings, "1h", SHOP, &server, &files)?;
    let (people, next) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut people = People::new(&site, Editor::log_in(&site)?, &people);
    // Somebody loads a file, and Galley and PHP warm up.
    people.watch(Duration::from_secs(settings.length.pick(1, 5)));
    let mut report = PartReport {
        title: "a crawl from 70,000 addresses, two PHP workers".to_owned(),
        usage: [site.usage(); 2],
        ..PartReport::default()
    };
    (settings.progress)("no crawl");
    let mut quiet = people.watch(Duration::from_secs(settings.length.pick(3, 40)));
    let mut is_challenging = false;
    let is_short = settings.length == RunLength::Short;
    let loads = LOADS.iter();
    let mut measured = Vec::new();
    for load in loads.filter(|load| !is_short || load.attack == Attack::Filters) {
        if load.challenge && !is_challenging {
            site.reload_with("crawl_challenge = true")?;
            is_challenging = true;
        }
        (settings.progress)(&load.title());
        let length = Duration::from_secs(settings.length.pick(2, load.seconds));
        let (people, crawl) = under(&site, &mut people, &next, load, length);
        measured.push(Measured {
            title: load.title(),
            is_judged: matches!(load.attack, Attack::Filters | Attack::Logins),
            tells_times: load.attack == Attack::Filters,
            has_challenge: load.challenge,
            people,
            crawl,
            usage: site.usage(),
        });
        // What waits in the queue is not part of the next load.
        pause(Duration::from_secs(settings.length.pick(0, 3)));
    }
    (settings.progress)("no crawl");
    let last = people.watch(Duration::from_secs(settings.length.pick(1, 20)));
    verdict::note_drift(&mut report, &quiet, &last);
    quiet = quiet.merged(last);
    report.page.quiet = quiet.time(Kind::Stored, 99);
    report.save.quiet = quiet.time(Kind::Editor, 95);
    site.close(&mut report);
    verdict::add(&mut report, settings.length, &quiet, &measured);
    Ok(report)
}

/// The people's results, and what the crawl got, while the crawl runs.
fn under(
    site: &StressSite,
    people: &mut People<'_>,
    next: &AtomicU64,
    load: &Load,
    length: Duration,
) -> (Results, CrawlResults) {
    let (is_over, addr) = (&AtomicBool::new(false), site.addr());
    let (started, first) = (Instant::now(), next.load(Ordering::Relaxed));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                scope.spawn(move || {
                    lower_priority();
                    let mut results = CrawlResults::default();
                    while !is_over.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let due = (number - first) * 1_000_000 / load.per_second;
                        let due = started + Duration::from_micros(due);
                        pause(due.saturating_duration_since(Instant::now()));
                        crawl(addr, load.attack, number, &mut results);
                    }
                    results
                })
            })
            .collect();
        let results = people.watch(length);
        let elapsed = started.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let mut all = CrawlResults::default();
        for results in clients.into_iter().filter_map(|client| client.join().ok()) {
            all.merge(results);
        }
        all.elapsed = elapsed;
        (results, all)
    })
}

/// Sends the requests of address `number`; the last one counts.
fn crawl(addr: SocketAddr, attack: Attack, number: u64, results: &mut CrawlResults) {
    let from = attack.address(number);
    let mut last = None;
    for request in attack.requests(number) {
        last = send(addr, from, &request);
    }
    results.add(last.as_ref());
}

const ADDRESSES: u64 = 70_000;
const NETWORKS: u32 = 40_960;

/// As many as 30 requests a second that wait for ten seconds need: the crawl does not wait for itself.
const CONNECTIONS: usize = 300;

/// Names IPv6 clients.
const PROXY: Ipv4Addr = Ipv4Addr::new(127, 254, 0, 1);

/// The list of Googlebot's addresses.
const LIST: &str = "googlebot.txt";

/// A shop with four filters, a catalog, a cart and a checkout. Its pages say when PHP worked for them. The editor's saves leave no
/// revisions, of which WordPress would read more with each save.
const SHOP: &str = "<?php
add_filter( 'wp_revisions_to_keep', '__return_zero' );
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
	header( sprintf( 'X-Php-Times: %.6F %.6F', $_SERVER['REQUEST_TIME_FLOAT'], microtime( true ) ) );
	echo '<!doctype html><html><head><link rel=stylesheet href=/wp-includes/css/dashicons.min.css><title>Shop</title></head><body>';
	echo esc_html( $path ), implode( '', $found );
	echo '</body></html>';
	exit;
} );
";
