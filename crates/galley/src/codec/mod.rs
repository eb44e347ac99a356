//! Content codings as functions over bytes, without waiting: [`encode`] for what Galley sends, [`decode`] for what an
//! upstream compressed unasked, [`unpack`] for the plain body of a stored page.
//!
//! A caller that streams through them does so in small pieces and yields in between. Their memory is reserved before it is
//! used. What is compressed, and the fields of the head, are decided elsewhere.

pub mod decode;
pub mod encode;
#[cfg(test)]
mod tests;
pub mod unpack;
