//! `galley import --try`: runs the old server and Galley side by side, and lists differences that visitors would notice.
//!
//! A copy of the old configuration and the draft run on loopback ports, and both get the same requests: some for each
//! statement that the import knows, and those from a log, a sitemap or a crawl. Every difference in the responses is listed,
//! unless visitors cannot see it.

mod body;
mod command;
mod differ;
mod difference;
mod draft;
mod endpoints;
mod error;
mod exchange;
mod fields;
mod files;
mod findings;
mod origin;
mod pages;
mod process;
mod rounds;
mod rules;
mod seen;
mod servers;
mod statements;
mod text;
mod value;
mod visit;
mod visits;
mod workplace;

pub(super) use command::{TryOptions, compare};
