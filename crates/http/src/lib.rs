//! HTTP/1.0 and HTTP/1.1 with clients: heads, framing, bodies, responses. Sans I/O, strict.
//!
//! It turns bytes into requests or a [`head::BadRequest`]. Its main decision is where one request ends and the next begins
//! (RFC 9112). It makes that decision once, so no later code reads framing fields again. It does not read sockets, keep
//! timers, evaluate targets beyond their form, or know what a response means.
//!
//! Invariants: the same bytes give the same result however they are split into reads; every rejection ends the connection;
//! parsing a usual head allocates nothing.
//!
//! A request takes this path: [`head::resume`] until it is complete, [`framing::frame`], [`body::BodyReader`],
//! [`response_writer::write_head`]. For upstreams, [`response`] defines which responses are
//! rejected. HTTP/2 and HTTP/3 requests take the same path from [`h2::head`] on.

pub mod body;
pub mod frame_interceptor;
pub mod framing;
pub mod h2;
pub mod h3;
pub mod head;
pub mod hpack;
pub mod owned_head;
pub mod priority;
pub mod proxy;
pub mod response;
pub mod response_writer;
pub mod token_bucket;

mod classes;
mod host;
mod refusal;
mod token;
