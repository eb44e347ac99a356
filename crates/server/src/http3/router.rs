//! Forwards datagrams to the endpoint that owns their connection.
//!
//! The kernel gives a datagram to the socket that its addresses select, so a client that moves reaches another front thread; and after a
//! reload the sockets are read by the threads of the next configuration, while those of the one before still own connections. After an
//! upgrade the same holds for processes: datagrams for the one before travel over a socket between both.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::{Buf, BufMut, BytesMut};
use quinn_proto::EcnCodepoint;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::sync::mpsc;

use super::ids::{Owner, QuicKeys};

/// A received datagram.
#[derive(Debug)]
pub(super) struct QuicDatagram {
    pub(super) client: SocketAddr,
    /// The address that the client has sent it to.
    pub(super) local: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) bytes: BytesMut,
}

/// What all endpoints of the process share: keys, and the way to the owner of a connection. It outlives configurations.
#[derive(Debug)]
pub struct QuicRouter {
    pub(super) keys: Arc<QuicKeys>,
    secret: QuicSecret,
    epoch: u8,
    endpoints: RwLock<RegisteredEndpoints>,
    /// Leads to the process before this one.
    predecessor: RwLock<Option<UnixDatagram>>,
}

/// A secret from which keys are derived.
#[derive(Clone)]
pub struct QuicSecret([u8; 32]);

#[derive(Debug, Default)]
struct RegisteredEndpoints {
    last: u16,
    by_number: HashMap<u16, mpsc::Sender<QuicDatagram>>,
}

impl QuicSecret {
    /// A random secret.
    ///
    /// Errors: there is no randomness.
    pub fn random() -> io::Result<Self> {
        let mut secret = [0; 32];
        let filled = aws_lc_rs::rand::fill(&mut secret);
        filled.map_err(|_| io::Error::other("no randomness"))?;
        Ok(Self(secret))
    }

    /// The secret of another process.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The secret, for the next process.
    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

impl std::fmt::Debug for QuicSecret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("QuicSecret")
    }
}

/// The two ends of a line between two processes. Packets keep their boundaries, and the end of one side is seen by the other.
///
/// Errors: there are no descriptors left.
pub fn forwarding_line() -> io::Result<(UnixDatagram, UnixDatagram)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (one, two) = socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
    Ok((one.into(), two.into()))
}

impl QuicRouter {
    /// A router for the process with the number `epoch`, counted from 0 over upgrades. `cluster`: the secret of all nodes.
    ///
    /// Errors: the cryptographic library cannot be used.
    pub fn new(
        secret: QuicSecret,
        cluster: Option<&QuicSecret>,
        epoch: u8,
    ) -> io::Result<Arc<Self>> {
        let keys = QuicKeys::derive(&secret.0, &cluster.unwrap_or(&secret).0);
        let keys = keys.ok_or_else(|| io::Error::other("keys cannot be derived"))?;
        Ok(Arc::new(Self {
            keys: Arc::new(keys),
            secret,
            epoch,
            endpoints: RwLock::default(),
            predecessor: RwLock::default(),
        }))
    }

    /// The secret and the number of this process, for the next one.
    pub fn heritage(&self) -> (QuicSecret, u8) {
        (self.secret.clone(), self.epoch)
    }

    /// Sends datagrams for connections of the process before this one to `line`; `None`: that process has ended.
    ///
    /// Errors: the socket cannot be used.
    pub fn set_predecessor(&self, line: Option<UnixDatagram>) -> io::Result<()> {
        if let Some(line) = &line {
            line.set_nonblocking(true)?;
        }
        let mut place = self
            .predecessor
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *place = line;
        Ok(())
    }

    /// Gives datagrams that the next process sends over `line` to the endpoints of this one, until that process closes it. Blocks.
    pub fn serve_successor(&self, line: &UnixDatagram) {
        let mut packet = vec![0; MAX_PACKET];
        // No process sends an empty packet: it is the end of the line.
        while let Ok(length @ 1..) = line.recv(&mut packet) {
            let bytes = BytesMut::from(packet.get(..length).unwrap_or_default());
            if let Some((owner, datagram)) = decode(bytes) {
                self.deliver(owner, datagram);
            }
        }
    }

    /// A new endpoint, and what is forwarded to it.
    pub(super) fn register(self: &Arc<Self>) -> (RegisteredEndpoint, mpsc::Receiver<QuicDatagram>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let mut all = self
            .endpoints
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        // One more than there can be at a time, so this ends.
        let mut number = all.last.wrapping_add(1);
        while all.by_number.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        all.last = number;
        all.by_number.insert(number, sender);
        let registered = RegisteredEndpoint {
            router: Arc::clone(self),
            owner: Owner {
                epoch: self.epoch,
                endpoint: number,
            },
        };
        (registered, receiver)
    }

    /// Forwards a datagram to its owner. Returns it if there is no such owner. A datagram for which there is no room is dropped.
    pub(super) fn forward(&self, owner: Owner, datagram: QuicDatagram) -> Option<QuicDatagram> {
        if owner.epoch == self.epoch {
            return self.deliver(owner, datagram);
        }
        if owner.epoch == self.epoch.wrapping_add(1) {
            // For a moment this process and the next one read the same sockets. A reset from here would end the connection; the
            // client sends the datagram again, to the next process.
            return None;
        }
        let line = self
            .predecessor
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(line) = &*line else {
            return Some(datagram);
        };
        match line.send(&encode(owner, &datagram)) {
            // That process has ended. A client whose connection is gone is told so.
            Err(error) if is_end(&error) => Some(datagram),
            // The client sends it again if it is lost.
            Ok(_) | Err(_) => None,
        }
    }

    fn deliver(&self, owner: Owner, datagram: QuicDatagram) -> Option<QuicDatagram> {
        let all = self
            .endpoints
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        match all.by_number.get(&owner.endpoint) {
            Some(endpoint) => {
                let _ = endpoint.try_send(datagram);
                None
            }
            None => Some(datagram),
        }
    }
}

/// An endpoint that receives what others forward, until this is dropped.
pub(super) struct RegisteredEndpoint {
    pub(super) router: Arc<QuicRouter>,
    pub(super) owner: Owner,
}

impl Drop for RegisteredEndpoint {
    fn drop(&mut self) {
        let all = self.router.endpoints.write();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        all.by_number.remove(&self.owner.endpoint);
    }
}

/// A datagram as it travels between processes.
///
/// ```text
/// endpoint (2), ECN (1), port (2), address of the client (16), whether a local address follows (1), that address (16), payload
/// ```
fn encode(owner: Owner, datagram: &QuicDatagram) -> BytesMut {
    let mut out = BytesMut::with_capacity(HEAD + datagram.bytes.len());
    out.put_u8(owner.epoch);
    out.put_u16(owner.endpoint);
    out.put_u8(datagram.ecn.map_or(0, |ecn| ecn as u8));
    out.put_u16(datagram.client.port());
    out.put_slice(&octets(datagram.client.ip()));
    out.put_u8(u8::from(datagram.local.is_some()));
    out.put_slice(&datagram.local.map_or([0; 16], octets));
    out.put_slice(&datagram.bytes);
    out
}

fn decode(mut packet: BytesMut) -> Option<(Owner, QuicDatagram)> {
    if packet.len() <= HEAD {
        return None;
    }
    let owner = Owner {
        epoch: packet.get_u8(),
        endpoint: packet.get_u16(),
    };
    let ecn = EcnCodepoint::from_bits(packet.get_u8());
    let port = packet.get_u16();
    let client = SocketAddr::new(address(&mut packet), port);
    let has_local = packet.get_u8() != 0;
    let local = address(&mut packet);
    let datagram = QuicDatagram {
        client,
        local: has_local.then_some(local),
        ecn,
        bytes: packet,
    };
    Some((owner, datagram))
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotConnected};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionRefused | ConnectionReset | NotConnected
    )
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn address(packet: &mut BytesMut) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(packet.get_u128())).to_canonical()
}

/// The bytes before the payload.
const HEAD: usize = 3 + 1 + 2 + 16 + 1 + 16;

/// The largest packet between processes: a datagram of UDP and its head.
const MAX_PACKET: usize = 65_535 + HEAD;

/// The maximum number of datagrams that wait for an endpoint.
const MAX_WAITING: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(bytes: &[u8]) -> QuicDatagram {
        QuicDatagram {
            client: "192.0.2.7:4567".parse().unwrap(),
            local: Some("2001:db8::1".parse().unwrap()),
            ecn: Some(EcnCodepoint::Ect0),
            bytes: BytesMut::from(bytes),
        }
    }

    #[test]
    fn datagrams_reach_their_owner_also_in_another_process() {
        let secret = QuicSecret::random().unwrap();
        let old = QuicRouter::new(secret.clone(), None, 7).unwrap();
        let new = QuicRouter::new(secret, None, 8).unwrap();
        let (endpoint, mut inbox) = old.register();
        let owner = endpoint.owner;
        assert!(old.forward(owner, datagram(b"here")).is_none());
        assert_eq!(&inbox.try_recv().unwrap().bytes[..], b"here");
        assert!(new.forward(owner, datagram(b"nobody")).is_some());
        let (next, _next_inbox) = new.register();
        assert!(old.forward(next.owner, datagram(b"later")).is_none());
        let (to_old, from_new) = forwarding_line().unwrap();
        new.set_predecessor(Some(to_old)).unwrap();
        assert!(new.forward(owner, datagram(b"there")).is_none());
        let serving = std::thread::spawn(move || old.serve_successor(&from_new));
        let forwarded = inbox.blocking_recv().unwrap();
        assert_eq!(&forwarded.bytes[..], b"there");
        assert_eq!(forwarded.client, datagram(b"").client);
        assert_eq!(forwarded.local, datagram(b"").local);
        assert_eq!(forwarded.ecn, Some(EcnCodepoint::Ect0));
        new.set_predecessor(None).unwrap();
        serving.join().unwrap();
        drop(endpoint);
    }

    #[test]
    fn a_closed_endpoint_gets_nothing() {
        let router = QuicRouter::new(QuicSecret::random().unwrap(), None, 0).unwrap();
        let (endpoint, inbox) = router.register();
        let (second, _other) = router.register();
        assert_ne!(endpoint.owner, second.owner);
        let owner = endpoint.owner;
        drop((endpoint, inbox));
        assert!(router.forward(owner, datagram(b"late")).is_some());
    }

    #[test]
    fn short_packets_of_another_process_are_dropped() {
        assert!(decode(BytesMut::from(&[0; HEAD][..])).is_none());
        assert!(decode(BytesMut::new()).is_none());
    }
}
