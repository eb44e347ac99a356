//! The measurement on any plugins and themes, with PHP scripts as edits.
//!
//! The site has the sample content, the plugins and themes of a folder, and what `setup.php` makes. Its pages are found by following
//! sitemaps and links. Nothing is known about the plugins: a page that differs between two generations without an edit is left out.

mod crawl;
mod events;
mod install;
mod run;

pub use self::run::{InstalledReport, InstalledSettings, run};
