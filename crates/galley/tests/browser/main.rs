//! The WordPress plugin as its users see it: its installation, the admin bar, the settings page, Site Health, and all of it in a real
//! browser.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

mod accessible;
mod assets;
mod browser;
mod http2;
mod install;
mod owner;
mod pages;
mod stack;
