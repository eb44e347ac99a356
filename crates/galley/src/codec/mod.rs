//! Content codings as bytes in and bytes out, without waiting: [`encode`] for what Galley sends, [`decode`] for what an
//! upstream coded unasked, [`unpack`] for stored pages whose plain body is wanted.
//!
//! Whoever streams through them does so in small pieces and gives way in between. Their memory is reserved before it is taken.
//! When something is coded, and what its head then says, is decided elsewhere.

pub mod decode;
pub mod encode;
#[cfg(test)]
mod tests;
pub mod unpack;
