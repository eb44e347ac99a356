//! What is learned about parameters, and who gets pages that combine them.

use super::*;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Pages whose content depends on `color` and `size` only.
fn learn(facets: &Facets, query: &str, now: u64) {
    let parts = query.split('&').filter(|part| !part.starts_with("ref="));
    let content = parts.collect::<Vec<_>>().join("&");
    let query = Some(query.as_bytes()).filter(|query| !query.is_empty());
    facets.learn(b"/shop/", query, content.as_bytes(), Tick(now));
}

#[test]
fn only_parameters_that_change_nothing_are_proposed() {
    let facets = Facets::default();
    for number in 0..20 {
        learn(&facets, "", number);
        learn(&facets, &format!("ref={number}"), number);
        learn(&facets, &format!("color={number}"), number);
        learn(&facets, &format!("color={number}&ref=a"), number);
        // Equal, but not the owner's to decide.
        for name in ["paged", "*", "a%5B%5D"] {
            let query = format!("{name}={number}");
            facets.learn(b"/other/", Some(query.as_bytes()), b"same", Tick(number));
        }
    }
    let learned = facets.learned();
    let found = ignorable(&learned);
    assert!(
        matches!(found.as_slice(), [("ref", same)] if *same >= COMPARISONS),
        "{found:?} of {learned:?}"
    );
    // One difference on another path is enough.
    facets.learn(b"/other/", Some(b"ref=1"), b"one", Tick(30));
    facets.learn(b"/other/", Some(b"ref=2"), b"two", Tick(30));
    assert_eq!(ignorable(&facets.learned()), []);
}

#[test]
fn pages_of_different_times_are_not_compared() {
    let facets = Facets::default();
    for number in 0..20 {
        let query = format!("ref={number}");
        let now = Tick(number * COMPARABLE_MS);
        facets.learn(b"/", Some(query.as_bytes()), b"same", now);
    }
    assert_eq!(ignorable(&facets.learned()), []);
}

#[test]
fn two_facets_of_a_path_with_many_combinations_are_combined() {
    let facets = Facets::default();
    let of = |query: &str| facets.are_combined(b"/shop/", query.as_bytes());
    for number in 0..20_u32 {
        learn(
            &facets,
            &format!("color={number}&size={}&type=or", number % 5),
            0,
        );
    }
    assert!(!of("color=1&size=2"), "too few combinations yet");
    for number in 0..60_u32 {
        learn(
            &facets,
            &format!("color={number}&size={}&type=or", number % 5),
            0,
        );
    }
    for (query, wanted) in [
        ("color=99&size=99", true),
        ("color=1&size=2&type=or", true),
        ("color=1&type=or", false),
        ("color=1&color=2", false),
        ("color=1", false),
        ("unknown=1&other=2", false),
    ] {
        assert_eq!(of(query), wanted, "{query}");
    }
    assert!(!facets.are_combined(b"/other/", b"color=1&size=2"));
}

/// How many of `times` requests for combined facets a client gets.
fn taken(site: &(Facets, ClientState), client: impl Into<IpAddr>, times: u32, now: u64) -> usize {
    let (client, (facets, clients)) = (client.into(), site);
    let is_taken = |_: &u32| facets.take(clients, 1, client, Tick(now));
    (0..times).filter(is_taken).count()
}

fn empty_site() -> (Facets, ClientState) {
    let clients = ClientState::new(0, Vec::new(), None);
    (Facets::default(), clients)
}

/// The client of this number, in a network of its own.
fn client(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0001 + (number << 8))
}

#[test]
fn combined_facets_have_rates_of_client_network_and_site() {
    let site = empty_site();
    assert_eq!(taken(&site, client(0), 100, 5), 8);
    // The rest of its /24 has seven more, and the rest of the site fifteen.
    let neighbour = Ipv4Addr::from_bits(client(0).to_bits() + 1);
    assert_eq!(taken(&site, neighbour, 100, 5), 7);
    let others: usize = (1..100)
        .map(|number| taken(&site, client(number), 1, 5))
        .sum();
    assert_eq!(others, 15);
    assert_eq!(taken(&site, client(200), 1, 5 + 10 * INTERVAL_MS), 1);
    assert_eq!(taken(&site, client(0), 100, 5 + 12 * INTERVAL_MS), 2);
    // A /64 is one client, a /48 one network.
    let site = empty_site();
    let of = |network: u128, host: u128| {
        Ipv6Addr::from_bits(0x2001_0db8_0001 << 80 | network << 64 | host)
    };
    let of_64: usize = (0..100).map(|host| taken(&site, of(1, host), 1, 5)).sum();
    let of_48: usize = (2..100)
        .map(|network| taken(&site, of(network, 1), 1, 5))
        .sum();
    assert_eq!((of_64, of_48), (8, 7));
}

#[test]
fn an_exempt_client_has_the_rate_of_the_site() {
    let exempt = vec!["10.0.0.1/32".parse().unwrap()];
    let site = (Facets::default(), ClientState::new(0, exempt, None));
    assert_eq!(taken(&site, client(0), 100, 5), 30);
    assert_eq!(taken(&site, client(1), 1, 5), 0);
}

proptest! {
    /// For a minute, one client asks without a pause, or all clients of its /24 do; people ask every now and then, all together for
    /// less than the site has left. No person is refused because of them.
    #[test]
    fn one_network_takes_no_combined_facets_from_others(
        greedy in 1_u32..=254,
        per_s in 1_u32..200,
        people in 2_u32..15,
        starts in proptest::collection::vec(0_u64..30, 15),
    ) {
        let site = empty_site();
        let mut attacker = 0;
        for second in 0..60_u64 {
            for number in 0..per_s {
                let low = (number + u32::try_from(second).unwrap() * per_s) % greedy;
                let from = Ipv4Addr::from_bits(client(0).to_bits() + low);
                attacker += taken(&site, from, 1, second * 1_000);
            }
            for person in 0..people {
                // Each opens a page with several facets twice a minute.
                let start = starts[person as usize];
                if second % 30 == start {
                    let got = taken(&site, client(1 + person), 1, second * 1_000);
                    prop_assert_eq!(got, 1, "person {} at {}", person, second);
                }
            }
        }
        // Half a page a second, and 15 at once; a single client 10 a minute, and 8 at once.
        let most = if greedy == 1 { 18 } else { 45 };
        prop_assert!(attacker <= most, "{} pages for {} addresses", attacker, greedy);
    }

    /// Whoever asks, from however many networks, the site gives no more than its rate.
    #[test]
    fn all_clients_together_have_the_rate_of_the_site(clients in 1_u32..3_000, seconds in 1_u64..100) {
        let site = empty_site();
        let all: usize = (0..seconds)
            .map(|second| (0..clients.min(200)).map(|number| {
                taken(&site, client((number * 17 + u32::try_from(second).unwrap()) % clients), 1, second * 1_000)
            }).sum::<usize>())
            .sum();
        prop_assert!(all as u64 <= 30 + seconds);
    }

    /// Whatever is requested, the size is bounded, and a path that is requested more often than all others together stays.
    #[test]
    fn memory_is_bounded_and_the_frequent_stay(
        pages in proptest::collection::vec(("/[a-z]{1,3}", "[a-z]{1,2}=[a-z]{0,2}(&[a-z]{1,2}=1){0,9}"), 0..400),
    ) {
        let facets = Facets::default();
        for (path, query) in &pages {
            facets.learn(path.as_bytes(), Some(query.as_bytes()), query.as_bytes(), Tick(0));
            facets.learn(b"/often/", Some(b"q=1"), b"", Tick(0));
        }
        let learned = facets.learned();
        prop_assert!(learned.len() <= PATHS);
        prop_assert!(learned.iter().all(|path| path.parameters.len() <= PARAMETERS));
        prop_assert!(pages.is_empty() || learned.iter().any(|path| path.path == "/often/"));
    }

    /// Linear counting is within a fifth of the truth for as many combinations as matter.
    #[test]
    fn combinations_are_counted(number in 1_u32..600) {
        let (mut distinct, seed) = (Distinct::default(), RandomState::new());
        for value in (0..number).chain(0..number) {
            distinct.add(seed.hash_one(value));
        }
        // The standard error is below 5 % (Whang et al., table 2), and 3 for few.
        let (least, most) = (number - number / 4, number + number / 4 + 6);
        prop_assert!((least.saturating_sub(6)..=most).contains(&distinct.count()), "{} of {number}", distinct.count());
    }
}
