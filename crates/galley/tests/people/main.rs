//! What people see of the WordPress plugin: how it gets into a WordPress, the admin bar, the settings page, Site Health, and all of it
//! once more in a real browser.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

mod browser;
mod http2;
mod install;
mod owner;
mod pages;
mod stack;
