//! Automatic certificates: ACME (RFC 8555) for sites with `tls = "auto"`.
//!
//! One task for each certificate (`keeper`) decides by pure rules when to order (`schedule`), orders (`order`) with the
//! account at the directory (`account`), writes the result to disk (`store`) and installs it for handshakes. Stored
//! certificates are installed before the first listener opens, so that a restart orders nothing. Whatever fails, the
//! certificate in use remains until there is another one. Visitors never wait for this module: front threads read the current
//! tokens ([`Acme::response`]) only for requests to [`CHALLENGES`].
//!
//! In a cluster with a key, one node orders for all, and every node answers the challenges (`sharing`).
//!
//! Certificates are not revoked. DNS records are changed by a program of the site owner (`dns`).

mod account;
mod certificate;
mod challenge;
mod challenges;
mod dns;
mod http;
mod keeper;
mod open;
mod order;
mod problem;
mod schedule;
mod sharing;
mod state;
mod store;

pub use self::challenges::{Acme, CHALLENGES};
pub use self::open::{AcmeReady, AcmeSpec, open};
pub use self::state::{CertificateStatus, MAX_NAMES, StatusFields, WantedCertificate};
pub use self::store::file_of;
