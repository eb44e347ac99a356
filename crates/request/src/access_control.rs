//! The access control of a site: its password files, the database of countries, and whether it needs any check for a `GET`. [`super::access`] applies it.

use std::net::IpAddr;
use std::sync::Arc;

use galley_policy::access::{AccessClient, By, CountryCode};
use galley_policy::crawlers::CrawlerRanges;
use galley_policy::site::Policy;

use galley_access::{Countries, CrawlPace, Passwords};

/// What access control needs of a site, read once from its configuration.
pub struct AccessControl {
    /// Whether no `GET` of the site needs a check.
    pub(super) is_open_to_all: bool,
    /// The password files, by the option that names them.
    pub(super) passwords: Vec<(By, Arc<Passwords>)>,
    /// `None`: the country of a client does not matter.
    countries: Option<Arc<Countries>>,
    /// Whether rules apply to clients of some countries.
    rules_by_country: bool,
    /// The published addresses of crawlers.
    pub(super) crawlers: Arc<CrawlerRanges>,
    /// How often a proven crawler may request a page.
    pub(super) crawl_pace: CrawlPace,
}

/// What is known about clients from files, for all sites.
#[derive(Clone, Default)]
pub struct ClientLists {
    /// The countries of addresses, if there is a database.
    pub countries: Option<Arc<Countries>>,
    /// The published addresses of crawlers.
    pub crawlers: Arc<CrawlerRanges>,
}

impl AccessControl {
    /// That of a site with these rules.
    pub fn new(policy: &Policy, lists: &ClientLists, crawl_pace: CrawlPace) -> Self {
        let countries = lists.countries.as_ref();
        let passwords = policy
            .password_files()
            .map(|(by, file)| (by, Arc::new(Passwords::of(file))))
            .collect();
        Self {
            is_open_to_all: policy.is_open(),
            passwords,
            countries: countries.filter(|_| policy.names_countries()).cloned(),
            rules_by_country: policy.rules.iter().any(|rule| !rule.countries.is_empty()),
            crawlers: Arc::clone(&lists.crawlers),
            crawl_pace,
        }
    }

    /// The country of the client at an address, as far as rules apply by it.
    pub fn rule_country(&self, address: IpAddr) -> Option<CountryCode> {
        let countries = self.countries.as_ref().filter(|_| self.rules_by_country);
        countries?.find(address)
    }

    /// The client at an address, with its country if that matters.
    pub fn client(&self, address: IpAddr) -> AccessClient {
        let countries = self.countries.as_ref();
        AccessClient {
            address,
            country: countries.and_then(|countries| countries.find(address)),
        }
    }
}
