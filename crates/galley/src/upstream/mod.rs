//! The side that composes: PHP over FastCGI, or Apache over HTTP.
//!
//! A [`UpstreamPool`] belongs to one fetch thread thread. It makes connections, and it holds the one limit that matters: at most as many
//! exchanges at once as the upstream has workers, over all front cores together, with a bounded and fair queue in front
//! (`limit`). Who was let in has a [`Slot`]; with it a request is sent, and what comes back, an [`IncomingResponse`], keeps it until
//! it has been read to the end or dropped. A server that fails again and again is left alone for a while (`breaker`).
//!
//! One retry, and only where nothing was received and the method is safe, or where the request was never sent.

mod adaptive;
mod admission;
mod attempt;
mod breaker;
mod call;
mod fastcgi;
mod fastcgi_body;
mod http1;
mod http1_body;
mod idle;
mod incoming;
pub mod interim;
mod limit;
mod pool;
mod queue;
mod queue_deadline;
mod resolve;
mod spec;
mod stats;
mod stream;
mod strict;
pub mod switch;

pub use call::UpstreamCall;
pub use incoming::IncomingResponse;
pub use limit::{QueueTurn, Slot};
pub use pool::UpstreamPool;
pub use queue::QueueIdentity;
pub use spec::{ExchangeEnd, FastCgiAddress, HttpServer, PoolSpec, UpstreamAddress};
pub use stats::{Load, OfClass, ServerStats, UpstreamStats};
