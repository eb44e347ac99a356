//! Scripted upstreams: what a real PHP or Apache cannot be made to do on command.
//!
//! A script is a function that is called for each request and writes the answer byte by byte, waits at a [`Gate`], closes
//! or resets. A panic in a script fails the test that owns the origin. [`Origin`] speaks HTTP/1.1, [`FastCgiOrigin`] FastCGI.

mod fastcgi;
mod gate;
mod http;
mod socket;

pub use fastcgi::{FastCgiOrigin, FastCgiRequest, FastCgiWriter};
pub use gate::Gate;
pub use http::{Origin, ReceivedRequest, ResponseWriter};
