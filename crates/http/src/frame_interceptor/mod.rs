//! Sorts what an HTTP/2 client sends: heads of requests are parsed here, everything else is passed to the library.
//!
//! A library keeps a state for each stream, which costs several times what a stored page costs. A request for a stored page
//! needs none: its stream is opened by one frame and closed by the frames of the response. So a [`FrameInterceptor`] stands
//! in front of the library and parses heads ([`Intercepted::Head`]). Its owner answers a request, or passes it to the
//! library ([`FrameInterceptor::pass`]).
//!
//! Three states are shared by both, and kept consistent here:
//! - Header compression. The interceptor has the client's table; heads that are passed on are encoded again, in literals,
//!   so the library's table stays empty. Responses of either side must not change the other's table: see [`crate::hpack`],
//!   and [`FrameInterceptor::may_respond`].
//! - Stream ids. The library never sees a stream that was answered here, so late frames for it are dropped here.
//! - The connection's window. The owner may send what was not granted to the library ([`FrameInterceptor::take_window`]).
//!
//! Requests are not evaluated here. An error of the connection that the library could not detect, or would treat
//! differently, is a [`FrameError`].

mod frame;
mod interceptor;
mod windows;

pub use self::frame::{FRAME_HEAD, MOST_FRAME, PREFACE, write_body, write_head};
pub use self::interceptor::{FrameError, FrameInterceptor, Intercepted, Opening};

#[cfg(test)]
mod tests;
