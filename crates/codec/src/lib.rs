//! Content codings as functions over bytes, without waiting: [`encode`] for bodies that Galley sends, [`decode`] for bodies that an
//! upstream compressed without being asked to, [`unpack`] for the plain body of a stored page.
//!
//! A caller that streams does so in small pieces and yields in between. Memory is reserved before it is used.
//!
//! [`compress`] is the only part with threads: it compresses stored pages in the background. [`dictionaries`] chooses the dictionaries by
//! which pages are sent to clients that have one.
//!
//! This crate never decides whether a body is compressed (`galley_policy::compress` does), never sends one, and changes no header.

pub mod compress;
pub mod decode;
pub mod dictionaries;
mod dictionary_job;
pub mod encode;
mod forms;
pub mod next_pages;
mod taking_part;
#[cfg(test)]
mod tests;
pub mod unpack;
