//! A blocking HTTP/1.1 client for raw requests: it sends exactly the bytes of the test, and returns the raw bytes of responses.
//!
//! It checks framing strictly: a response with two lengths, an invalid chunk, or bytes after its end is an error. All
//! operations have a deadline. It does not follow redirects or retry. [`Browser`] adds cookies and a persistent connection;
//! [`login`] logs in to WordPress. [`frames`] is a client for HTTP/2.

mod browser;
mod connection;
pub mod frames;
mod jar;
mod request;
mod response;

pub use browser::{Browser, login};
pub use connection::Connection;
pub use jar::CookieJar;
pub use request::{Body, Part, Request};
pub use response::Response;
