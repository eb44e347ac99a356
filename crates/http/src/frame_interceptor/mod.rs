//! What a client of HTTP/2 sends, sorted: heads of requests are read here, everything else is for the library behind.
//!
//! A library keeps a state for each stream, which costs several times what a stored page costs. A request whose response lies
//! ready needs none: its stream is opened by one frame and closed by the frames of the response. So a [`FrameInterceptor`] stands in
//! front of the library, reads heads ([`Intercepted::Head`]), and leaves each either to its owner, who answers it, or to the library
//! ([`FrameInterceptor::pass`]).
//!
//! Three states are shared by both, and kept right here:
//! - Header compression. The sieve has the client's table; what is passed on is written anew, in literals, so that the library's
//!   table stays empty. Answers of either side must leave the other's table alone: see [`crate::hpack`], and
//!   [`FrameInterceptor::may_respond`].
//! - Numbers of streams. The library never hears of a stream that was answered here, so late frames for it end here.
//! - The connection's window. The owner may send what the library was not told of ([`FrameInterceptor::take_window`]).
//!
//! Nothing here judges a request. What breaks the connection in a way that the library could not see, or would see
//! differently, is [`FrameError`].

mod frame;
mod interceptor;
mod windows;

pub use self::frame::{FRAME_HEAD, MOST_FRAME, PREFACE, write_body, write_head};
pub use self::interceptor::{FrameError, FrameInterceptor, Intercepted, Opening};

#[cfg(test)]
mod tests;
