//! The UDP socket of an endpoint: datagrams in batches, received with GRO and sent with GSO where the kernel has them.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::router::QuicDatagram;

/// A socket that is registered with the runtime.
pub(super) struct QuicSocket {
    socket: AsyncFd<UdpSocket>,
    state: UdpSocketState,
    local: SocketAddr,
    /// One buffer for each datagram, or group of equal datagrams, of a batch.
    buffers: RefCell<Vec<Vec<u8>>>,
}

impl QuicSocket {
    pub(super) fn open(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let local = socket.local_addr()?;
        let bytes = (DATAGRAM_BYTES * state.gro_segments()).min(GROUP_BYTES);
        Ok(Self {
            socket: registered(socket, Interest::READABLE | Interest::WRITABLE)?,
            state,
            local,
            buffers: RefCell::new((0..BATCH).map(|_| vec![0; bytes]).collect()),
        })
    }

    /// The address that the socket is bound to.
    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Whether the path never fragments datagrams, which finding the largest size of a path depends on.
    pub(super) fn never_fragments(&self) -> bool {
        !self.state.may_fragment()
    }

    /// The maximum number of datagrams in one call.
    pub(super) fn max_segments(&self) -> usize {
        self.state.max_gso_segments().min(MAX_SEGMENTS)
    }

    /// Receives a batch. Cancel-safe: what was received is in `received`.
    pub(super) async fn receive(&self, received: &Cell<Vec<QuicDatagram>>) {
        let failed = poll_fn(|cx| {
            let mut batch = received.take();
            let polled = self.poll_receive(cx, |datagram| batch.push(datagram));
            received.set(batch);
            match polled {
                Poll::Ready(Ok(())) => Poll::Ready(false),
                Poll::Ready(Err(_)) => Poll::Ready(true),
                Poll::Pending => Poll::Pending,
            }
        });
        if failed.await {
            // A socket that fails must not keep the thread busy.
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }

    /// Receives a batch, and gives each datagram to `take`. Ready with false if there was none at once.
    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(QuicDatagram),
    ) -> Poll<io::Result<()>> {
        let Self { socket, state, .. } = self;
        let mut buffers = self.buffers.borrow_mut();
        let mut slices = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer));
        let mut slices: [IoSliceMut<'_>; BATCH] =
            std::array::from_fn(|_| slices.next().unwrap_or(IoSliceMut::new(&mut [])));
        let mut about = [RecvMeta::default(); BATCH];
        loop {
            let mut ready = std::task::ready!(socket.poll_read_ready(cx))?;
            let received = ready.try_io(|socket| {
                state.recv(UdpSockRef::from(socket.get_ref()), &mut slices, &mut about)
            });
            match received {
                Ok(Ok(count)) => {
                    for (slice, about) in slices.iter().zip(&about).take(count) {
                        split(slice, about, &mut take);
                    }
                    return Poll::Ready(Ok(()));
                }
                // An error that another host has reported, for a client that is gone.
                Ok(Err(error)) if is_transient(&error) => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }

    /// Lets datagrams that others read wake nobody here.
    pub(super) fn stop_reading(&mut self) -> io::Result<()> {
        let socket = self.socket.get_ref().try_clone()?;
        self.socket = registered(socket, Interest::WRITABLE)?;
        Ok(())
    }

    /// Sends datagrams. False if the socket has no room now; any other failure is a loss, as on the way.
    pub(super) fn send(&self, transmit: &Transmit, bytes: &[u8]) -> bool {
        let outgoing = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit
                .ecn
                .and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: bytes,
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        let sent = self.socket.try_io(Interest::WRITABLE, |socket| {
            self.state.try_send(UdpSockRef::from(socket), &outgoing)
        });
        match sent {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            // Datagrams that look for the largest size of the path are larger than some paths permit.
            Err(error) => {
                tracing::trace!(client = %transmit.destination, %error, "a datagram was not sent");
                true
            }
        }
    }

    /// Ready when the socket may have room after [`QuicSocket::send`] has found none.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        // `send` has cleared the readiness.
        self.socket.poll_write_ready(cx).map(|_| ())
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe; the descriptor is owned, and closed by nobody else"
)]
fn registered(socket: UdpSocket, interest: Interest) -> io::Result<AsyncFd<UdpSocket>> {
    AsyncFd::with_interest(socket, interest)
}

fn split(received: &[u8], about: &RecvMeta, take: &mut impl FnMut(QuicDatagram)) {
    // Nobody sends from there, and the error of an answer would turn off the offload of the socket.
    if about.addr.port() == 0 {
        return;
    }
    let mut bytes = BytesMut::from(received.get(..about.len).unwrap_or_default());
    let stride = about.stride.max(1);
    while !bytes.is_empty() {
        let one = bytes.split_to(stride.min(bytes.len()));
        take(QuicDatagram {
            client: about.addr,
            local: about.dst_ip,
            ecn: about.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
            bytes: one,
        });
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// The largest datagram that is received, in bytes: that of Ethernet.
const DATAGRAM_BYTES: usize = 1500;

/// The largest group of datagrams that the kernel gives at once, in bytes.
const GROUP_BYTES: usize = 65_536;

/// Groups of datagrams in one call.
const BATCH: usize = 4;

/// The maximum number of datagrams that are sent in one call. More of them would make others wait.
const MAX_SEGMENTS: usize = 32;

/// The pause after an error of the socket.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
