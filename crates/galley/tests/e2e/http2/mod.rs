//! HTTP/2 without TLS: it gives the responses that HTTP/1 gives, and an attack on a connection ends only that connection.

mod attacks;
pub mod client;
mod equivalence;
pub mod frames;
mod interop;
mod slow_clients;
mod streams;
