//! The rules of HTTP and WordPress, as pure decisions.
//!
//! No function does I/O, reads a clock (`now` is an argument) or keeps state, and each is total over any input, because
//! clients and upstreams are untrusted.
//!
//! [`site`] has the policy of a site: [`site::Policy`] with its two values for WordPress and RFC 9111. Requests:
//! [`proxied`] finds the client behind proxies; [`request_info`] parses a request head once; [`access`], [`key`],
//! [`redirect`], [`forward`] and [`cgi`] use the result. [`spellings`] knows the URLs of the same page. Responses:
//! [`storable`] decides what is stored, [`freshness`] for how long, [`decide`] whether a stored response is sent;
//! [`conditional`], [`range`] and [`encoding`] choose its form, [`headers`] its fields. [`fragments`] describes the shared
//! parts of pages, [`private`] those of members, and [`esi`] finds what pages include. [`purge`] parses purges, [`class`]
//! sorts requests that wait for an upstream, and [`outcome`] has the words that explain decisions.

pub mod access;
pub mod appointments;
pub mod cache_control;
pub mod cache_status;
pub mod cgi;
pub mod class;
pub mod classes;
pub mod compress;
pub mod conditional;
pub mod cookie;
pub mod decide;
pub mod decoded;
pub mod early_hints;
pub mod encoding;
pub mod esi;
pub mod extensions;
pub mod fields;
pub mod forward;
pub mod fragments;
pub mod freshness;
pub mod headers;
pub mod images;
pub mod key;
pub mod no_vary_search;
pub mod outcome;
pub mod pattern;
pub mod private;
pub mod proxied;
pub mod purge;
pub mod query;
pub mod range;
pub mod redirect;
pub mod request_info;
pub mod route;
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
