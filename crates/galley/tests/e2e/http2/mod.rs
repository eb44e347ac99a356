//! HTTP/2 without TLS: it gives the responses that HTTP/1 gives, and an attack on a connection ends it.

mod alike;
pub mod ask;
pub mod attacks;
mod programs;
mod slow;
mod streams;
