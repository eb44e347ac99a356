//! The header of the PROXY protocol on a new connection, in which a trusted proxy names its client.
//!
//! It is read before anything else, TLS included, and exactly to its end. Only trusted proxies may connect to such a
//! listener, and only with a header: otherwise any client could claim any address.

use std::net::SocketAddr;
use std::rc::Rc;

use bytes::BytesMut;
use galley_http::proxy::{self, ProxyHeaderStep, ProxySource};
use galley_policy::proxied::Proxies;
use tokio::io::AsyncReadExt;

use super::Core;
use super::socket::Socket;

/// The two ends of the connection according to the header; `None`: the connection must be closed.
pub(super) async fn read_client(
    core: &Rc<Core>,
    socket: &mut Socket,
    client: SocketAddr,
    local: SocketAddr,
    proxies: &Proxies,
) -> Option<(SocketAddr, SocketAddr)> {
    if !proxies.trusts(client) {
        if core.refused_connections.admit() {
            tracing::warn!(
                peer = %client.ip(),
                "rejected a connection: only `trusted_proxies` may connect to a listener with `proxy_protocol`"
            );
        }
        return None;
    }
    let timer = core.timers.register();
    let reading = timer.within(core.limits.head_timeout, read(socket));
    let Ok(Some(header)) = reading.await else {
        if core.refused_connections.admit() {
            tracing::warn!(peer = %client.ip(), "a trusted proxy sent no header of the PROXY protocol");
        }
        return None;
    };
    Some(match header {
        ProxySource::Itself => (client, local),
        ProxySource::Client {
            source,
            destination,
        } => (source, destination),
    })
}

async fn read(socket: &mut Socket) -> Option<ProxySource> {
    let mut got = BytesMut::with_capacity(TYPICAL_HEADER_BYTES);
    loop {
        match proxy::read(&got).ok()? {
            ProxyHeaderStep::Whole(header) => return Some(header),
            ProxyHeaderStep::More(more) => {
                let mut wanted = (&mut *socket).take(more as u64);
                if wanted.read_buf(&mut got).await.ok()? == 0 {
                    return None;
                }
            }
        }
    }
}

/// Buffer size for a header with a few TLVs.
const TYPICAL_HEADER_BYTES: usize = 256;
