//! Certificates by themselves: the real binary with Pebble, the authority that Let's Encrypt has for tests. Every name
//! leads to this machine, by a DNS server of the test's own.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

mod cluster;
mod dns;
mod dns_update;
mod failures;
mod handshake;
mod issue;
mod renew;
mod stage;
