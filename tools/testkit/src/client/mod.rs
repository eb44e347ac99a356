//! A blocking HTTP/1.1 client that hides nothing: what is sent is what the test wrote, and the answer keeps its raw bytes.
//!
//! It checks framing strictly (an answer with two lengths, a bad chunk or bytes after its end is an error, never repaired),
//! has a deadline on everything, and makes no redirect or retry by itself. [`Browser`] adds cookies and one kept
//! connection; [`login`] logs in to WordPress. [`frames`] speaks HTTP/2.

mod browser;
mod connection;
pub mod frames;
mod jar;
mod request;
mod response;

pub use browser::{Browser, login};
pub use connection::Connection;
pub use jar::Jar;
pub use request::{Body, Part, Request};
pub use response::Response;
