//! FastCGI 1.0 in the responder role, seen from the web server: Galley asks, PHP-FPM generates.
//!
//! - [`record`]: the eight-byte headers and fixed bodies of the protocol;
//! - [`params`]: the name-value pairs of a request;
//! - [`exchange`]: one request and its response, without I/O;
//! - [`FastCgiConnection`]: drives an exchange over a stream, both directions at once;
//! - [`response`]: cuts standard output into the CGI head block and the body.
//!
//! One request at a time per connection, always with id 1: PHP-FPM does not multiplex. Pools, limits, queues, timeouts
//! and retries are not here, and neither is the meaning of a variable or of a response's field.

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
