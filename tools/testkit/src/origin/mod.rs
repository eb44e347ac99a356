//! Scripted upstreams, for behavior that a real PHP or Apache cannot produce on demand.
//!
//! A script is a function that is called for each request. It writes the raw response, waits at a [`Gate`], or closes or resets
//! the connection. A panic in a script fails the test that owns the origin. [`Origin`] uses HTTP/1.1, [`FastCgiOrigin`] FastCGI.

mod fastcgi;
mod gate;
mod http;
mod socket;

pub use fastcgi::{FastCgiOrigin, FastCgiRequest, FastCgiWriter};
pub use gate::Gate;
pub use http::{Origin, ReceivedRequest, ResponseWriter};
