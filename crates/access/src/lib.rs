//! The state behind `galley_policy::access`: rate limits, connection limits and verified passwords of clients, their
//! countries, and who has visited a site.
//!
//! One instance, of fixed size, is shared by all threads of the process. A hit never waits here: counts are atomics, and only
//! requests with a password, which bypass the cache, take the lock of the verified passwords.

mod buckets;
mod client_state;
mod connections;
mod countries;
mod hashes;
mod passwords;
mod visit_ticket;
mod visits;

pub use buckets::Buckets;
pub use client_state::{ClientState, LimitedSite};
pub use connections::ConnectionSlot;
pub use countries::{Countries, CountryFileError};
pub use passwords::{PasswordCheck, Passwords, PasswordsStamp};
pub use visits::{NewVisitor, Visits};
