//! FastCGI 1.0 in the responder role, on the side of the web server: Galley sends requests, PHP-FPM generates responses.
//!
//! - [`record`]: the eight-byte headers and fixed bodies of the protocol;
//! - [`params`]: the name-value pairs of a request;
//! - [`exchange`]: one request and its response, without I/O;
//! - [`FastCgiConnection`]: drives an exchange over a stream, both directions at once;
//! - [`response`]: splits standard output into the CGI head block and the body.
//!
//! A connection has one request at a time, always with id 1: PHP-FPM does not multiplex. Pools, limits, queues, timeouts
//! and retries are not part of this crate, nor is the meaning of variables and response fields.

mod connection;
mod error;
mod event;
pub mod exchange;
mod incoming;
mod outgoing;
pub mod params;
pub mod record;
pub mod response;

pub use connection::{BodySource, FastCgiConnection, NoBody};
pub use error::Error;
pub use event::FastCgiEvent;
pub use exchange::FastCgiRequest;
pub use record::{BadRecord, EndStatus, ProtocolStatus};
