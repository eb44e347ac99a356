//! `galley import --try` with real servers: it reports every difference that a test plants in the draft, and no other.

mod apache;
mod caddy;
mod comparison;
mod differences;
mod draft;
mod nginx;
mod site;
mod varnish;
