//! The client of the bench: many connections in one thread, each with one request under way, every answer looked at.
//!
//! Several streams may run side by side in one loop (hits, and beside them misses or purges), each with connections,
//! requests and a pace of its own. With a pace, latency counts from the moment at which the request was due, so that a
//! server that stalls is charged for all who would have come meanwhile. Status and framing of every answer are
//! checked as they come; now and then a whole body is kept, and looked at by the caller afterwards.

mod answer;
mod ask;
mod chunks;
mod client;
mod connection;
mod secured;
mod seen;
mod speak;
mod stream;

pub(super) use self::{
    answer::Coding,
    ask::{Ask, Asks, Order, Wanted, Zipf},
    client::{Client, Until},
    secured::{Door, Secured},
    seen::Seen,
    speak::Spoken,
    stream::{Lasting, Spec},
};
