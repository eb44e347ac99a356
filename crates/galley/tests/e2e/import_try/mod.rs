//! `galley import --try` with real servers: it finds every difference that is planted in the draft, and none where nothing is.

mod apache;
mod caddy;
mod nginx;
mod planting;
mod plants;
mod runs;
mod site;
mod varnish;
