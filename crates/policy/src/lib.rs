//! What HTTP and WordPress permit, as pure decisions.
//!
//! Values in, verdict out: no input or output, no clock (`now` is an argument), no runtime, no state. Every function is
//! total over any input, because all of its input is hostile: it comes from clients and upstreams.
//!
//! Request side: [`proxied`] says who asks behind proxies; [`request_info`] reads a request head once; [`access`], [`key`], [`forward`] and [`cgi`] work from what it found.
//! Response side: [`storable`] judges what may be kept and for how long, [`decide`] whether a kept entry may answer,
//! [`conditional`], [`range`] and [`encoding`] in which form. [`spellings`] knows the addresses that mean the same page to WordPress. [`redirect`] says which requests belong elsewhere, [`headers`] what a site changes about its answers, [`class`] who waits with whom for an upstream. [`outcome`] holds the words that explain all of it.

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
pub mod encoding;
pub mod extensions;
pub mod fields;
pub mod forward;
pub mod fragments;
pub mod freshness;
pub mod headers;
pub mod key;
pub mod no_vary_search;
pub mod outcome;
pub mod pattern;
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
pub mod time;
pub mod uri;
pub mod vary;
pub mod wordpress;
