//! HTTP/3: one task for each UDP socket of a front thread.
//!
//! The task ([`endpoint`]) receives datagrams in batches and drives all connections of its socket ([`connection`], [`state`]); the `quinn-proto` crate
//! is the state machine of QUIC, and [`galley_http::h3`] reads and writes HTTP/3. The task answers a plain hit itself ([`hit`]). Each other
//! request has a task ([`exchange`]) that uses its stream through the shared state of the connection ([`link`]), in the same steps as over
//! HTTP/1 and HTTP/2. Timeouts are in [`deadlines`], congestion control in [`congestion`], limits in [`settings`] and [`memory`].
//!
//! Connection ids name the endpoint that owns a connection ([`ids`]); what reaches another one is forwarded ([`router`]), also after a reload
//! and to the process before this one.

mod amplification;
mod clocks;
mod congestion;
mod connection;
mod deadlines;
mod ending;
mod endpoint;
mod exchange;
mod hit;
mod ids;
mod link;
mod listener;
mod memory;
mod request_head;
mod router;
mod sending_hit;
mod settings;
mod state;
mod streams;
mod tasks;
mod udp;

pub(super) use endpoint::run;
pub use listener::QuicListener;
pub use router::{QuicRouter, QuicSecret, forwarding_line};
