//! HTTP/3 with clients that are not ours (aioquic, curl, Chromium): it gives the responses that HTTP/1 gives, and a client that breaks the protocol
//! ends only its stream or its connection.

mod chromium;
pub mod client;
mod curl;
mod defenses;
mod restarts;
mod semantics;
mod sockets;
mod violations;
