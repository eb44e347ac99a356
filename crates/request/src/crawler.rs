//! Crawlers: which one a client is proven to be, and how often it may request pages.
//!
//! Only requests that no stored page and no file answers get here, so a hit costs nothing. Nothing here waits: what DNS has not
//! answered yet is unproven.

use std::time::Duration;

use galley_policy::crawlers::{self, CrawlerTreatment, rule_of};
use galley_policy::outcome::RefusedWhy;

use super::exchange::Exchange;
use super::site::Services;
use crate::fault::Fault;
use galley_access::PacedCrawler;

/// Whether a lookup of the client's name may be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameLookup {
    /// In the background, if the limits permit it.
    Begin,
    /// No: only what is known counts.
    KnownOnly,
}

/// The crawler that the client of a request is proven to be: its address is on a published list, or DNS has confirmed the name
/// that it claims.
pub fn proven<'e>(
    services: &Services,
    exchange: &'e Exchange<'_>,
    lookup: NameLookup,
) -> Option<&'e str> {
    let address = exchange.client.ip();
    if let Some(name) = exchange.site.access.crawlers.find(address) {
        return Some(name);
    }
    let crawler = crawlers::known(exchange.info.user_agent()?)?;
    let (clients, now) = (&services.clients, services.clock.tick());
    let is_proven = match lookup {
        NameLookup::Begin => clients.confirms(crawler, address, now),
        NameLookup::KnownOnly => clients.knows_name(crawler, address, now) == Some(true),
    };
    is_proven.then_some(crawler.name)
}

/// Refuses a request of a crawler that comes sooner than the site permits.
pub(super) fn admit(services: &Services, exchange: &Exchange<'_>) -> Result<(), Fault> {
    let proven = proven(services, exchange, NameLookup::Begin);
    // Crawlers learn the delay from this file.
    if exchange.info.decoded_path() == b"/robots.txt" {
        return Ok(());
    }
    let Some((name, delay)) = pace(services, exchange, proven) else {
        return Ok(());
    };
    let crawler = PacedCrawler {
        site: exchange.site.mark,
        name,
        is_proven: proven.is_some(),
    };
    let taken = services
        .clients
        .pace(&crawler, delay, services.clock.tick());
    taken.map_err(|wait| {
        let seconds = wait.as_millis().div_ceil(1_000).max(1);
        let ms = delay.as_millis();
        let note = format!("`{name}` requested a page within {ms} ms of its last one");
        Fault {
            retry_after_s: Some(u32::try_from(seconds).unwrap_or(u32::MAX)),
            ..Fault::new(RefusedWhy::CrawlDelay, note)
        }
    })
}

/// The name and the delay that apply to a client: the owner's rule for its name, otherwise the delay of the site for a proven
/// crawler.
fn pace<'e>(
    services: &Services,
    exchange: &'e Exchange<'_>,
    proven: Option<&'e str>,
) -> Option<(&'e str, Duration)> {
    let rules = &exchange.policy().access.crawlers;
    if let Some(rule) = rule_of(rules, exchange.info.user_agent())
        && let CrawlerTreatment::Delay(delay) = rule.treatment
    {
        return Some((&rule.name, delay));
    }
    let crawler = proven?;
    let pace = &exchange.site.access.crawl_pace;
    let delay = pace.delay_of(crawler, services.clock.tick())?;
    Some((crawler, delay))
}
