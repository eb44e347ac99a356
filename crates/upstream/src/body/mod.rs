//! Request bodies, and the spools that they share with responses.
//!
//! A 100 MB upload needs the memory of one buffer, and a slow one does not occupy a PHP worker: PHP gets a request when its body
//! is complete. With `stream_request` the upstream gets the body as it arrives.

pub mod body_spools;
mod request_body;
pub mod streamed_body;

pub use request_body::{FileReader, RequestBody, RequestBodyReader, Spool, read_small};
