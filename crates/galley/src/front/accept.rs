//! Taking connections in.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::socket::Socket;
use super::{Core, Listener, h1, handshake};
use crate::serve::Sites;
use crate::sys;
use crate::telemetry::counters::Closed;
use crate::tls::Acceptor;

/// Accepts until the server is to stop; what the kernel has taken in by then is still answered.
pub(super) async fn run(core: Rc<Core>, listener: Listener, mut stop: watch::Receiver<bool>) {
    let way = Way {
        sites: listener.sites,
        tls: listener.tls,
    };
    let listener = match TcpListener::from_std(listener.socket) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "a listener could not be used");
            return;
        }
    };
    let mut paused = false;
    loop {
        while core.connections.get() >= core.limits.connections && !core.stopping.get() {
            make_room(&core);
            // One that asks nothing yet may do so in a moment.
            let _ = tokio::time::timeout(LOOK_AGAIN, core.connection_ended.notified()).await;
        }
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return take_last(&core, listener, &way),
        };
        match accepted {
            Ok((stream, client)) => {
                paused = false;
                spawn(&core, stream, client, &way);
            }
            Err(error) if sys::is_out_of_descriptors(&error) => {
                if !paused {
                    tracing::warn!(%error, "no descriptor is left, so connections that ask nothing are ended; raise `ulimit -n`");
                }
                paused = true;
                make_room(&core);
                tokio::time::sleep(OUT_OF_DESCRIPTORS_PAUSE).await;
            }
            // The client was gone before we looked, or the network stumbled: the next may be fine.
            Err(error) => tracing::debug!(%error, "a connection could not be accepted"),
        }
    }
}

/// Takes in what the kernel still holds, of which the runtime may not have heard yet: closing the listener resets it.
fn take_last(core: &Rc<Core>, listener: TcpListener, way: &Way) {
    let Ok(listener) = listener.into_std() else {
        return;
    };
    for _ in 0..MOST_LAST {
        let Ok((stream, client)) = listener.accept() else {
            return;
        };
        if stream.set_nonblocking(true).is_ok()
            && let Ok(stream) = TcpStream::from_std(stream)
        {
            spawn(core, stream, client, way);
        }
    }
}

/// Ends some of the connections that ask nothing, enough that this is not done for each newcomer.
fn make_room(core: &Core) {
    let most = (core.limits.connections / PARTS).max(1);
    for _ in 0..core.timers.give_way(most) {
        core.counters.closed(Closed::GaveWay);
    }
}

/// What connections of one listener lead to.
struct Way {
    sites: Arc<Sites>,
    tls: Option<Acceptor>,
}

fn spawn(core: &Rc<Core>, stream: TcpStream, client: SocketAddr, way: &Way) {
    let Some(seat) = core.services.clients.seat(client.ip()) else {
        core.counters.closed(Closed::TooMany);
        return Socket::Tcp(stream).reset_at_end();
    };
    let Ok(local) = prepare(&stream) else { return };
    let counted = (Counted::begin(core), seat);
    let core = Rc::clone(core);
    let sites = Arc::clone(&way.sites);
    let ends = h1::Ends {
        client,
        local,
        is_tls: way.tls.is_some(),
    };
    // Two tasks, because the room of one is that of its largest wait: a plain connection needs none for handshakes.
    match way.tls.clone() {
        None => tokio::task::spawn_local(async move {
            h1::connection(core, Socket::Tcp(stream), sites, ends).await;
            drop(counted);
        }),
        Some(acceptor) => tokio::task::spawn_local(async move {
            handshake::connection(core, stream, (acceptor, sites), ends).await;
            drop(counted);
        }),
    };
}

fn prepare(stream: &TcpStream) -> io::Result<SocketAddr> {
    // Answers leave in whole writes: waiting to fill a segment would only delay the last one.
    stream.set_nodelay(true)?;
    stream.local_addr()
}

struct Counted(Rc<Core>);

impl Counted {
    fn begin(core: &Rc<Core>) -> Self {
        core.connections.set(core.connections.get() + 1);
        core.counters.connections(core.connections.get());
        Self(Rc::clone(core))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
        self.0.counters.connections(self.0.connections.get());
        self.0.connection_ended.notify_waiters();
    }
}

/// As many as the kernel holds back at most; a flood of new ones must not keep the end from coming.
const MOST_LAST: usize = 4096;

/// What part of the connections gives way at one time.
const PARTS: usize = 64;

/// How long a full core waits before it looks again for connections that ask nothing.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How long accepting rests when no descriptor is left: some connection ends meanwhile, and the kernel keeps the queue.
const OUT_OF_DESCRIPTORS_PAUSE: Duration = Duration::from_millis(20);
