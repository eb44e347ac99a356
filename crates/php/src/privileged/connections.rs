//! The sockets of the privileged process: one to Galley, and another to the Galley that takes over from it.
//!
//! Each socket has separate tasks for reading and writing, so that a Galley that does not read does not delay another one.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use galley_privileged::{BYTES, Report};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::sync::mpsc;

use galley_sys::packets;

/// All open connections.
pub(super) struct KeeperConnections {
    open: HashMap<ConnectionId, KeeperConnection>,
    next: u32,
    /// The maximum number of reports that wait for a Galley to read them.
    backlog: usize,
    received: mpsc::Receiver<IncomingPacket>,
    receiver: mpsc::Sender<IncomingPacket>,
}

/// The id of a connection; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ConnectionId(u32);

/// A received packet; an empty one means that the connection has ended.
pub(super) struct IncomingPacket {
    pub(super) from: ConnectionId,
    pub(super) packet: Vec<u8>,
}

struct KeeperConnection {
    socket: Arc<UnixDatagram>,
    reports: mpsc::Sender<OutgoingReport>,
}

struct OutgoingReport {
    report: Report,
    carried: Option<OwnedFd>,
}

impl KeeperConnections {
    /// Starts without connections. `processes`: the maximum number of processes, which may all have to be reported at the same
    /// time.
    pub(super) fn new(processes: usize) -> Self {
        let (receiver, received) = mpsc::channel(MAX_CONNECTIONS);
        Self {
            open: HashMap::new(),
            next: 0,
            backlog: processes.saturating_add(BACKLOG),
            received,
            receiver,
        }
    }

    /// Adds a socket. Must be called within a runtime.
    pub(super) fn add(&mut self, socket: OwnedFd) -> io::Result<ConnectionId> {
        let socket = Arc::new(packets::waited_for(socket)?);
        let id = ConnectionId(self.next);
        self.next = self.next.wrapping_add(1);
        let (reports, outgoing) = mpsc::channel(self.backlog);
        tokio::spawn(write(Arc::clone(&socket), outgoing));
        tokio::spawn(read(Arc::clone(&socket), id, self.receiver.clone()));
        self.open.insert(id, KeeperConnection { socket, reports });
        Ok(id)
    }

    /// Adds a new pair of sockets, and returns the other end.
    ///
    /// Errors: `EBUSY` if the maximum number of connections is open.
    pub(super) fn add_pair(&mut self) -> io::Result<(ConnectionId, OwnedFd)> {
        if self.open.len() >= MAX_CONNECTIONS {
            return Err(Errno::BUSY.into());
        }
        let (here, there) = packets::pair()?;
        Ok((self.add(here)?, there))
    }

    /// Waits for the next packet from any connection. Cancel-safe.
    pub(super) async fn receive(&mut self) -> Option<IncomingPacket> {
        self.received.recv().await
    }

    /// Sends a report. A Galley that has left so many reports unread is faulty, and is disconnected.
    pub(super) fn send(&mut self, to: ConnectionId, report: Report, carried: Option<OwnedFd>) {
        let report = OutgoingReport { report, carried };
        let open = self.open.get(&to);
        if let Some(Err(_full)) = open.map(|open| open.reports.try_send(report)) {
            self.remove(to);
        }
    }

    /// Sends a report to all connections.
    pub(super) fn send_all(&mut self, report: Report) {
        let all: Vec<ConnectionId> = self.open.keys().copied().collect();
        for to in all {
            self.send(to, report, None);
        }
    }

    /// Closes a connection: no more reports are sent, and both of its tasks end.
    pub(super) fn remove(&mut self, id: ConnectionId) {
        if let Some(removed) = self.open.remove(&id) {
            // On failure the other end is closed already.
            let _ = removed.socket.shutdown(Shutdown::Both);
        }
    }

    /// Whether a connection is open.
    pub(super) fn is_open(&self, id: ConnectionId) -> bool {
        self.open.contains_key(&id)
    }

    /// Whether no connection is left.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

async fn read(
    socket: Arc<UnixDatagram>,
    from: ConnectionId,
    receiver: mpsc::Sender<IncomingPacket>,
) {
    loop {
        let mut buffer = [0; BYTES + 1];
        let receive = || packets::receive_plain(&*socket, &mut buffer);
        // An error means that a Galley was killed with unread reports.
        let received = socket.async_io(Interest::READABLE, receive).await;
        let packet = buffer.get(..received.unwrap_or(0)).unwrap_or_default();
        let is_end = packet.is_empty();
        let packet = packet.to_vec();
        if receiver
            .send(IncomingPacket { from, packet })
            .await
            .is_err()
            || is_end
        {
            return;
        }
    }
}

async fn write(socket: Arc<UnixDatagram>, mut outgoing: mpsc::Receiver<OutgoingReport>) {
    while let Some(OutgoingReport { report, carried }) = outgoing.recv().await {
        let packet = report.bytes();
        let carried = carried.as_ref().map(AsFd::as_fd);
        let send = || packets::send(&*socket, &packet, carried);
        if socket.async_io(Interest::WRITABLE, send).await.is_err() {
            return;
        }
    }
}

/// The maximum number of connections: Galley, its successor, and those whose end was not noticed yet.
const MAX_CONNECTIONS: usize = 4;

/// The number of waiting reports in addition to one for each process.
const BACKLOG: usize = 256;
