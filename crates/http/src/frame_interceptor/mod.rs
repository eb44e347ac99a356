//! Sorts the frames of an HTTP/2 client: request heads are parsed here, everything else is passed to the library.
//!
//! A library keeps a state for each stream, which costs several times as much as sending a stored page. A request for a stored
//! page needs no state: its stream is opened by one frame and closed by the frames of the response. So a
//! [`FrameInterceptor`] in front of the library parses heads ([`InterceptorOutput::Head`]). The caller sends the response, or
//! passes the request to the library ([`FrameInterceptor::pass`]).
//!
//! Both sides share three states, which are kept consistent here:
//! - Header compression. The interceptor has the client's table. Heads that are passed on are encoded again as literals, so
//!   the library's table stays empty. Responses of either side must not change the other's table: see [`crate::hpack`],
//!   and [`FrameInterceptor::may_respond`].
//! - Stream ids. The library never sees a stream that was answered here, so late frames for it are dropped here.
//! - The connection's window. The caller may use the bytes that were not granted to the library ([`FrameInterceptor::take_window`]).
//!
//! Requests are not evaluated here. A connection error that the library could not detect, or would treat differently, is a
//! [`FrameError`].

mod frame;
mod interceptor;
mod windows;

pub use self::frame::{FRAME_HEAD, MAX_FRAME, PREFACE, write_body, write_head};
pub use self::interceptor::{FrameError, FrameInterceptor, InterceptorOutput, Opening};

#[cfg(test)]
mod tests;
