//! HTTP/3 with clients that are not ours (aioquic, curl, ngtcp2's client, Chromium): it gives the responses that HTTP/1 gives, and a client that breaks the protocol
//! ends only its stream or its connection.

mod behaviors;
mod chromium;
pub mod client;
mod cluster;
mod curl;
mod default;
mod defenses;
mod early_data;
mod ngtcp2;
mod restarts;
mod semantics;
mod sockets;
mod violations;
