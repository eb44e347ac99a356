//! One HTTP/2 connection: many streams, one task that drives them, few writes.
//!
//! Input passes an interceptor first (`galley_http::frame_interceptor`), and the heads of requests are parsed here. The task
//! of the connection answers a plain hit directly, without the library ([`hit`]). The `h2` crate handles the frames, windows
//! and states of all other streams; its limits are in [`limits`], and [`flood`] counts what the library does not. A request
//! from the library is converted to the same head as in HTTP/1 ([`request_head`]); from then on, nothing depends on HTTP/2,
//! in a task for each stream ([`exchange`], [`response`]).
//!
//! In each scheduling slice the task reads the received bytes, answers the hits in the order of their urgency (RFC 9218), lets
//! the library write all its frames into one buffer, and sends that ([`framed_socket`]). The library alternates between streams
//! with data, one frame each.

mod connection;
mod deadlines;
mod ending;
mod exchange;
mod flood;
mod framed_socket;
mod hit;
pub(super) mod limits;
mod parsed;
mod preface;
pub(super) mod quota;
pub(super) mod request_head;
mod response;

pub(super) use connection::{connection, resumed};
pub(super) use preface::has_preface;
