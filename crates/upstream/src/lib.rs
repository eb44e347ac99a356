//! Upstreams: PHP over FastCGI, or an HTTP server such as Apache.
//!
//! An [`UpstreamPool`] belongs to one fetch thread. It opens connections and enforces the concurrency limit: never more concurrent
//! exchanges than the upstream has workers, over all front threads together, with a bounded and fair admission queue
//! (`limit`). An admitted request holds a [`Slot`]. The response, an [`IncomingResponse`], keeps the slot until its body has been
//! read to the end or dropped. A server that fails repeatedly is paused (`breaker`).
//!
//! [`body`] holds request bodies and spools: what an upstream gets, and what is too large for memory.
//!
//! A request is retried at most once, and only if it was never sent, or if nothing was received and its method is safe. This crate
//! never decides what becomes of a response, and never stores one.

mod adaptive;
mod admission;
mod attempt;
mod attempt_span;
mod balancer;
pub mod body;
mod breaker;
mod call;
mod fastcgi;
mod fastcgi_body;
mod health_check;
mod http1;
mod http1_body;
mod idle;
mod incoming;
pub mod interim;
mod limit;
mod pace;
mod pool;
mod queue;
mod queue_deadline;
mod queued_clients;
mod resolve;
mod response_log;
mod server_state;
mod spec;
mod stats;
mod stream;
mod strict;
pub mod switch;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use balancer::BalancedServer;
pub use call::UpstreamCall;
pub use health_check::{CheckTarget, HealthCheck};
pub use incoming::IncomingResponse;
pub use limit::{QueuePosition, Slot};
pub use pool::UpstreamPool;
pub use queue::QueueIdentity;
pub use server_state::{HealthChange, ServerEligibility, ServerState, ServerStates};
pub use spec::{ExchangeEnd, HttpServer, PoolSpec, UpstreamAddress};
pub use stats::{ClassCounts, Load, UpstreamStats};
