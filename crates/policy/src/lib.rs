//! The rules of HTTP and WordPress, as pure functions.
//!
//! A function never does I/O, never reads a clock (`now` is an argument) and never keeps state. Each accepts any input, because
//! clients and upstreams are untrusted.
//!
//! [`site`] contains the policy of a site, [`site::Policy`], with one value for WordPress and one for RFC 9111. For requests,
//! [`proxied`] finds the client behind proxies; [`request_info`] parses a request head once; [`access`], [`key`],
//! [`redirect`], [`forward`] and [`cgi`] use the result. [`spellings`] finds the other URLs of the same page. For responses,
//! [`storable`] decides whether a response is stored, [`freshness`] for how long, [`decide`] whether a stored response is sent;
//! [`conditional`], [`range`], [`encoding`] and [`dictionary`] choose the form in which it is sent, [`headers`] changes its fields.
//! [`fragments`] describes the shared parts of pages, [`private`] the private parts for members, and [`esi`] finds the
//! includes of pages. [`purge`] parses purges, [`class`] classifies requests that wait for an upstream, [`crawlers`] recognizes
//! crawlers, and [`outcome`] has the words that explain decisions.

pub mod access;
pub mod appointments;
pub mod audit;
pub mod cache_control;
pub mod cache_status;
pub mod cgi;
pub mod class;
pub mod classes;
pub mod compress;
pub mod conditional;
pub mod cookie;
pub mod crawlers;
pub mod decide;
pub mod decoded;
pub mod dictionary;
pub mod early_hints;
pub mod encoding;
pub mod esi;
mod excepted;
pub mod extensions;
pub mod fields;
pub mod forward;
pub mod fragments;
pub mod freshness;
pub mod headers;
pub mod images;
pub mod key;
pub mod next_pages;
pub mod no_vary_search;
pub mod outcome;
pub mod pattern;
pub mod private;
pub mod proxied;
pub mod purge;
pub mod query;
mod random_ids;
pub mod range;
pub mod redirect;
pub mod request_info;
pub mod route;
pub mod send_file;
pub mod shape;
pub mod site;
mod span;
pub mod spellings;
pub mod storable;
pub mod tags;
#[cfg(test)]
mod testing;
pub mod time;
pub mod trace_context;
pub mod uri;
pub mod vary;
pub mod wordpress;
