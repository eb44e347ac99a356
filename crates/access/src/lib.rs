//! The state behind `galley_policy::access`: rate limits, connection limits and verified passwords of clients, their
//! countries, who has visited a site, and what proves and paces crawlers.
//!
//! One instance, of fixed size, is shared by all threads of the process. A hit never waits here: counts are atomics, and only
//! requests with a password, which bypass the cache, take the lock of the verified passwords.

mod buckets;
mod client_state;
mod connections;
mod countries;
mod crawl_pace;
mod crawler_names;
mod hashes;
mod passwords;
mod visit_ticket;
mod visits;

pub use buckets::Buckets;
pub use client_state::{ClientState, LimitedSite, PacedCrawler};
pub use connections::ConnectionSlot;
pub use countries::{Countries, CountryFileError};
pub use crawl_pace::CrawlPace;
pub use crawler_names::NameCheck;
pub use passwords::{PasswordCheck, Passwords, PasswordsStamp};
pub use visits::{NewVisitor, Visits};
