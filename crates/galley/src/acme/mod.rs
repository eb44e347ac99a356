//! Certificates by themselves: ACME (RFC 8555) for the sites that ask for it with `tls = "auto"`.
//!
//! One task per certificate (`keeper`) decides when to order by pure rules (`schedule`), orders (`order`) with the one
//! account of the directory (`account`), writes what it got to disk (`store`) and hands it to the handshakes. What is
//! stored is handed over before the first listener opens, so that a restart orders nothing. A certificate that is in
//! use stays in use until another one is there, whatever fails meanwhile. Nothing here is on a visitor's way: front
//! cores look at the tokens under way ([`Acme::response`]) for requests to [`CHALLENGES`] alone.
//!
//! In a cluster with a key, one node orders for all, and every node answers the challenges (`sharing`).
//!
//! It does not revoke. Records in the DNS are changed by a program of the site owner, or by dynamic updates (`dns`).

mod account;
mod certificate;
mod challenge;
mod challenges;
mod dns;
mod dns_message;
mod dns_name;
mod dns_update;
mod http;
mod keeper;
mod open;
mod order;
mod problem;
mod schedule;
mod sharing;
mod state;
mod store;
mod tsig;

pub use self::challenges::{Acme, CHALLENGES};
pub use self::open::{AcmeReady, AcmeSpec, open};
pub use self::state::{CertificateStatus, MOST_NAMES, StatusFields, WantedCertificate};
pub use self::store::file_of;
