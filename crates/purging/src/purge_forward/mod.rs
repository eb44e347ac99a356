//! Forwards purges to caches on other machines: in front of this one (Cloudflare, Fastly, Bunny, Varnish) and behind it (Galley).
//!
//! [`PurgeForwarder`] (`forwarder`) owns a thread. A worker for each site keeps the order of its caches (`worker`), each
//! target has a queue of limited length with retries (`queue`), and waiting purges survive a restart (`outbox`). `target` defines
//! the format of each API and is pure; `client` sends one request and evaluates the response.

mod client;
mod everything;
mod forwarder;
mod outbox;
mod queue;
mod target;
mod worker;

use everything::everything;
pub use forwarder::{ForwardingSite, PurgeForwarder};
pub use queue::TargetStats;
pub use target::ForwardTarget;
