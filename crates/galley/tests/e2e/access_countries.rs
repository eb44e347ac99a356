//! Access control and rules by country. The test database maps 127.0.0.2 to Austria and has no entry for other loopback addresses.

use galley_testkit::wait_for;

use crate::access_control::{assert_refused, get_from};
use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT};

#[test]
fn country_rules_apply_before_the_cache() {
    let database = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../access/tests/fixtures/countries.mmdb"
    );
    let site = SiteBuilder::php()
        .server(&format!("geoip = \"{database}\""))
        .log("format = \"json\"\nfields = [\"country\", \"target\", \"status\"]")
        .more(
            "[[site.rule]]\npath = \"/inner*\"\nallow_countries = [\"AT\", \"de\"]\n\
             [[site.rule]]\npath = \"/abroad*\"\ndeny_countries = [\"AT\"]\n",
        )
        .start();
    for (number, target, is_hit) in [
        (2, "/inner/", Some(false)),
        (3, "/inner/", None),
        (2, "/inner/", Some(true)),
        (2, "/abroad/", None),
        (3, "/abroad/", Some(false)),
        (2, "/abroad/", None),
        (3, "/abroad/", Some(true)),
        (2, "/", Some(false)),
        (3, "/", Some(true)),
    ] {
        let response = get_from(&site, number, target);
        match is_hit {
            None => assert_refused(&response, 403, "network"),
            Some(is_hit) => {
                assert_eq!(response.status, 200, "{target} from {number}");
                let status = response.cache_status();
                assert_eq!(
                    status.starts_with("galley; hit"),
                    is_hit,
                    "{target}: {status}"
                );
            }
        }
    }
    assert_eq!((site.runs("/inner/"), site.runs("/abroad/")), (1, 1));
    let url = format!("http://{HOST}/abroad/");
    let why = site
        .galley
        .cli(&["why", &url, "--from", "127.0.0.2"])
        .unwrap();
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("`deny_countries` of rule number 2"), "{why}");
    wait_for("the log records", TIMEOUT, || {
        site.access().lines().count() >= 9
    });
    let log = site.access();
    let without_first_field = |line: &str| {
        line.split_once(',')
            .map(|(_, rest)| rest.to_owned())
            .unwrap()
    };
    let lines: Vec<String> = log.lines().map(without_first_field).collect();
    let from_austria = "\"country\":\"AT\",\"target\":\"/abroad/\",\"status\":403}";
    assert_eq!(
        lines.iter().filter(|line| *line == from_austria).count(),
        2,
        "{log}"
    );
    let from_unknown = "\"country\":null,\"target\":\"/inner/\",\"status\":403}";
    assert_eq!(
        lines.iter().filter(|line| *line == from_unknown).count(),
        1,
        "{log}"
    );
}

#[test]
fn rules_for_countries_use_separate_cache_entries() {
    let database = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../access/tests/fixtures/countries.mmdb"
    );
    let site = SiteBuilder::php()
        .server(&format!("geoip = \"{database}\""))
        .more(
            "[[site.rule]]\npath = \"/gift*\"\ncountries = [\"AT\"]\nredirect = \"/geschenk\"\nredirect_status = 302\n\
             [[site.rule]]\npath = \"/price*\"\ncountries = [\"AT\", \"DE\"]\nset_headers = [\"X-Currency: EUR\"]\n\
             [[site.rule]]\npath = \"/fresh*\"\ncountries = [\"AT\"]\ncache = false\n\
             [[site.rule]]\npath = \"/fresh*\"\nset_headers = [\"X-Currency: USD\"]\n",
        )
        .start();
    let redirected = get_from(&site, 2, "/gift/");
    assert_eq!(redirected.status, 302);
    let location = redirected.field("location").unwrap();
    assert!(location.ends_with("/geschenk"), "{location}");
    get_from(&site, 3, "/gift/").assert_status(200);
    // Each rule has its own entry, and a purge removes both.
    for round in 0..2 {
        for is_hit in [false, true] {
            for (number, currency) in [(2, Some("EUR")), (3, None)] {
                let response = get_from(&site, number, "/price/");
                response.assert_status(200);
                assert_eq!(response.is_hit(), is_hit, "{}", response.cache_status());
                assert_eq!(response.field("x-currency"), currency, "{round}");
            }
        }
        site.purge(&["--url", &format!("http://{HOST}/price/")]);
    }
    assert_eq!(site.runs("/price/"), 4);
    for _ in 0..2 {
        let response = get_from(&site, 2, "/fresh/");
        assert!(!response.is_hit() && response.field("x-currency").is_none());
        assert_eq!(
            get_from(&site, 3, "/fresh/").field("x-currency"),
            Some("USD")
        );
    }
    assert!(get_from(&site, 3, "/fresh/").is_hit());
    assert_eq!(site.runs("/fresh/"), 3);
    let url = format!("http://{HOST}/price/");
    for (from, rule) in [
        ("127.0.0.2", "for clients from AT, DE"),
        ("127.0.0.3", "none applies"),
    ] {
        let why = site.galley.cli(&["why", &url, "--from", from]).unwrap();
        let why = String::from_utf8(why.stdout).unwrap();
        assert!(why.contains(rule), "{from}: {why}");
    }
}
