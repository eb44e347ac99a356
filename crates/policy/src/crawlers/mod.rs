//! Crawlers whose operators tell how to recognize them, and what a site permits them.
//!
//! A `User-Agent` proves nothing. Two things prove a crawler: its address is on a list that its operator publishes
//! ([`CrawlerRanges`]), or the reverse name of its address is below a domain of the operator and leads back to the address
//! ([`KnownCrawler`]; the lookups are the server's). [`CrawlDelays`] reads how often `robots.txt` permits a request,
//! [`CrawlerRule`] is what the owner of a site decides about a name, proven or not.

mod agent;
mod known;
mod list;
mod ranges;
mod robots;
mod rules;

pub use known::{KNOWN, KnownCrawler, known};
pub use list::{MAX_LIST_BYTES, MAX_PREFIXES, parse_list};
pub use ranges::CrawlerRanges;
pub use robots::{CrawlDelays, MAX_ROBOTS_BYTES};
pub use rules::{CrawlerRule, CrawlerTreatment, is_name, rule_of};
