//! HTTP/3 with a client that is not ours (aioquic): it gives the responses that HTTP/1 gives, and a client that breaks the protocol
//! ends only its stream or its connection.

mod chromium;
pub mod client;
mod defenses;
mod restarts;
mod semantics;
mod sockets;
mod violations;
