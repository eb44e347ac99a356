//! One HTTP/2 connection: many streams, one task that drives them, few writes.
//!
//! What comes is sorted first (`galley_http::frame_interceptor`): heads of requests are read here. A plain hit is answered in the
//! connection's own turn, and the library never hears of it ([`hit`]). Frames, windows and states of all other streams are the
//! `h2` crate's; what may be asked of it is in [`limits`], what it does not count is in [`ledger`]. Its request becomes the head
//! that HTTP/1 has ([`request_head`]); from there on there is nothing of HTTP/2 in it, in a task for each stream ([`exchange`],
//! [`response`]).
//!
//! A turn: take in what has come, answer the hits among it in the order of their urgency (RFC 9218), let the library put all
//! frames that it has into one buffer, and write that ([`wire`]). Between streams that have something to send the library goes
//! round, a frame each.

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
