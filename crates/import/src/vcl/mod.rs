//! Varnish: converts the usual VCL of WordPress sites: backends, purges, requests that bypass the cache, lifetimes.
//!
//! VCL is a program. Its conditions about cookies and paths become options; other computed conditions are reported as not
//! carried.

mod fields;
mod file;
mod idioms;
mod receive;
mod synthetic;

pub(crate) use file::convert;
