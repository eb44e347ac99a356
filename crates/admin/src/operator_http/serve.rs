//! Accepts connections, and serves each in a task of its own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connection;
use super::listener::{OperatorListener, Peer};
use super::table::ConnectionTable;
use galley_telemetry::errors::LogInterval;

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct OperatorLimits {
    /// Connections at the same time.
    pub connections: usize,
    /// How long a client may take to read a response; `None`: responses that do not end are sent, too.
    pub response_time: Option<Duration>,
}

/// Serves until `retired`, and then finishes the requests in progress. Cancelling it closes all connections.
pub async fn serve(
    listener: OperatorListener,
    limits: OperatorLimits,
    router: Router,
    retired: impl Future<Output = ()>,
) -> io::Result<()> {
    let table = ConnectionTable::new(limits.connections);
    let (retire, retiring) = watch::channel(false);
    let mut connections = JoinSet::new();
    let turned_away = LogInterval::new(LOG_INTERVAL_S);
    tokio::pin!(retired);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = &mut retired => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(place) = table.admit(peer, Instant::now() + connection::HEAD_TIME) else {
                    if turned_away.admit() {
                        warn(peer);
                    }
                    continue;
                };
                let place = Arc::new(place);
                let call = connection::ConnectionCall {
                    router: router.clone(),
                    peer,
                    response_time: limits.response_time,
                };
                connections.spawn(connection::serve(stream, place, call, retiring.clone()));
                // What has arrived is read, and connections that were replaced are closed, before the next one is accepted.
                tokio::task::yield_now().await;
            }
            Err(error) if galley_sys::is_out_of_descriptors(&error) => {
                tokio::time::sleep(OUT_OF_DESCRIPTORS_PAUSE).await;
            }
            // The client has closed the connection, for example.
            Err(error) => tracing::debug!(%error, "cannot accept a connection"),
        }
    }
    drop(listener);
    let _ = retire.send(true);
    while connections.join_next().await.is_some() {}
    Ok(())
}

fn warn(peer: Peer) {
    let peer = match peer {
        Peer::Operator => "the server's own user or root".to_owned(),
        Peer::User(uid) => format!("user id {uid}"),
        Peer::Network(_) => "one address".to_owned(),
    };
    tracing::warn!(
        %peer,
        "the admin interface has closed a connection: too many requests of this client are in progress"
    );
}

/// How long accepting pauses when the process has no free file descriptor.
const OUT_OF_DESCRIPTORS_PAUSE: Duration = Duration::from_millis(20);

/// The shortest time between two warnings, in seconds.
const LOG_INTERVAL_S: u32 = 60;
