//! Varnish: converts what a VCL file states without computing: backends, purges, requests that bypass the cache by one condition,
//! lifetimes and fields.
//!
//! VCL is a program. Everything else in it is reported as not carried, in the order of the file: a list to go through.

mod fields;
mod file;
mod receive;
mod words;

pub(crate) use file::convert;
