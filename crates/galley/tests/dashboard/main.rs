//! `galley dashboard`: access control, the JSON API, and every view in a real browser.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

mod access;
mod api;
mod browser;
mod load_report;
mod outage;
mod site_dashboard;
mod support;
mod tls;
mod untrusted_text;
