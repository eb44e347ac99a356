//! Front cores: the threads that talk to clients.
//!
//! [`start()`] starts one from a [`CoreSpec`], which names its [`Listeners`], [`ClientLimits`] and sites; a [`Phase`] tells it to retire
//! or to stop. [`QuicRouter`] distributes the datagrams of HTTP/3 over the cores.
//!
//! Each core has its own runtime, listeners (`SO_REUSEPORT`), timers and log buffer. A connection stays on
//! its core. If file descriptors run out, or the limit of connections is reached, idle connections are closed for new ones.
//!
//! A core never decides what a response is: `galley_request` does. It never hands a connection to another core.

mod accept;
mod accepted;
mod batch;
mod buffers;
mod close;
mod core;
mod endpoints;
mod exchange;
mod fast_path;
mod handshake;
mod http1;
mod http2;
mod http3;
mod io;
mod pending_body;
mod pool;
mod protocol;
mod proxy_protocol;
mod record;
mod request_log_fields;
mod run_slices;
mod socket;
mod span;
mod spec;
mod speed;
mod start;
mod stream_body;
mod stream_hit;
mod tick;
mod timer;
mod tunnel;
mod upload;
mod write;

use self::core::Core;
pub use self::http3::{QuicListener, QuicRouter, QuicSecret, forwarding_line};
pub use self::spec::{BoundListener, ClientLimits, CoreSpec, Listeners, Phase};
pub use self::speed::MinRate;
pub use self::start::start;
