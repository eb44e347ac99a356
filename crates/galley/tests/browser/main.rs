//! The user interface of the WordPress plugin: installation, admin bar, settings page and Site Health, over HTTP and in Chromium.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

mod accessibility;
mod admin_pages;
mod assets;
mod chromium;
mod dictionaries;
mod http2;
mod install;
mod outage;
mod settings_page;
mod site;
