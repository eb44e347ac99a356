//! One HTTP/2 connection: many streams, one task that drives them, few writes.
//!
//! Input is sorted first (`galley_http::frame_interceptor`): heads of requests are parsed here. A plain hit is answered in
//! the connection's own turn, and the library never sees it ([`hit`]). The `h2` crate handles frames, windows and states of
//! all other streams; its limits are in [`limits`], and what it does not count is in [`ledger`]. Its request becomes the
//! same head as in HTTP/1 ([`request_head`]); from there on nothing depends on HTTP/2, in a task for each stream
//! ([`exchange`], [`response`]).
//!
//! A turn: read what has arrived, answer the hits in the order of their urgency (RFC 9218), let the library put all its
//! frames into one buffer, and write that ([`wire`]). The library takes streams with data in turns, a frame each.

mod connection;
mod deadlines;
mod ending;
mod exchange;
mod greeting;
mod hit;
mod ledger;
mod limits;
mod parsed;
mod quota;
mod request_head;
mod response;
mod wire;

pub(super) use connection::{connection, resumed};
pub(super) use greeting::is_greeted;
