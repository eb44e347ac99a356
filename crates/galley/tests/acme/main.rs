//! Automatic certificates: the real binary with Pebble, the ACME test server of Let's Encrypt. A DNS server of the test
//! resolves every name to this machine.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

mod cluster;
mod dns_hook;
mod dns_update;
mod failures;
mod handshake;
mod issuance;
mod renewal;
mod site;
