//! The web server for WordPress.
//!
//! Modules have ranks, and each imports only from ranks below its own (`tests/layers` checks that):
//! `clock` `fault` `telemetry` < `body` `codec` `doctor` `operator_http` `php` `tls` < `access` `acme` `compress` `dashboard` `durable` `service_client` `setup` `upstream` < `binary_upgrade` `fetch` `otlp` `purge_forward` < `request` < `server` `admin` < `app` < `cli`.
//! [`request`] describes the path of a request; `ARCHITECTURE.md` has a diagram of all modules.

pub mod access;
pub mod acme;
pub mod admin;
pub mod app;
mod binary_upgrade;
pub mod body;
pub mod cli;
pub mod clock;
pub mod codec;
pub mod compress;
pub mod dashboard;
pub mod doctor;
pub mod durable;
pub mod fault;
pub mod fetch;
mod operator_http;
pub mod otlp;
pub mod php;
pub mod purge_forward;
pub mod request;
pub mod server;
mod service_client;
pub mod setup;
pub mod sys;
pub mod telemetry;
#[cfg(test)]
mod testing;
pub mod tls;
pub mod upstream;
