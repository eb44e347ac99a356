//! HTTP/1 for the few clients of an operator's interface: the admin interface, and the web server of `galley dashboard`.
//!
//! Everything that a client can take is bounded before the interface knows who it is: connections in total and of one client,
//! the size of a request's head, and the time of each step of an exchange. A connection carries one request, so that no idle
//! connections exist and responses that nobody reads cannot pile up.

mod connection;
mod listener;
mod serve;
mod table;

pub use listener::{OperatorListener, Peer};
pub use serve::{OperatorLimits, serve};
pub use table::max_connections;
