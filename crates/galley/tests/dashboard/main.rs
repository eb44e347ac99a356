//! `galley dashboard`: who gets in, what they see, and that every view works in a real browser.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

mod browser;
mod doors;
mod figures;
mod hostile;
mod site;
mod stage;
mod tls;
