//! HTTP/1.0 and HTTP/1.1 towards clients: heads, framing, bodies, answers. Sans I/O, strict.
//!
//! Bytes in, meaning or a [`head::BadRequest`] out. The crate owns one decision above all: where one request ends and the
//! next begins (RFC 9112). It makes that decision once, so nobody behind it reads framing fields again. It does not read
//! sockets, keep timers, judge targets beyond their form, or know what a response means.
//!
//! Invariants: the same bytes give the same result however they are cut into reads; every refusal ends the connection;
//! reading a usual head allocates nothing.
//!
//! The way of a request: [`head::resume`] until it is whole, [`framing::frame`], [`body::BodyReader`],
//! [`framing::Framing::response`], [`response_writer::write_head`]. Towards upstreams it owns what a response must not be: [`response`]. What came by HTTP/2 takes the same way from [`h2::head`] on.

pub mod body;
pub mod frame_interceptor;
pub mod framing;
pub mod h2;
pub mod head;
pub mod hpack;
pub mod owned_head;
pub mod proxy;
pub mod response;
pub mod response_writer;

mod classes;
mod host;
mod refusal;
mod token;
