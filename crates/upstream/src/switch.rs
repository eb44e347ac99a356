//! A connection to an HTTP upstream that switches to another protocol (RFC 9110 §7.8), usually a WebSocket.
//!
//! A request for another protocol has a [`ProtocolSwitch`]. Only a 101 with the requested protocol turns the connection into a tunnel,
//! which is passed to the front thread that waits for the response; any other response is an ordinary one. So no byte of the
//! client reaches the upstream outside HTTP before both have agreed. The limit on tunnels is checked before the request is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use galley_sys::Lock;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;

/// Both directions of a connection to an upstream, with the bytes that it has already sent.
pub type TunnelStream = TokioIo<Upgraded>;

/// Counts all tunnels and limits their number.
#[derive(Debug)]
pub struct Tunnels {
    open: Arc<AtomicUsize>,
    most: usize,
    silence: Duration,
}

impl Tunnels {
    /// The same tunnels with other limits.
    #[must_use]
    pub fn with(&self, most: usize, silence: Duration) -> Self {
        Self {
            open: Arc::clone(&self.open),
            most,
            silence,
        }
    }

    /// `most`: the maximum number of tunnels. A tunnel that transmits nothing for `silence` ends.
    pub fn new(most: usize, silence: Duration) -> Self {
        Self {
            open: Arc::default(),
            most,
            silence,
        }
    }

    /// The number of tunnels, including requested ones.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// The time without transmission after which a tunnel ends.
    pub fn silence(&self) -> Duration {
        self.silence
    }

    /// Reserves one tunnel, and returns its two ends; `None`: the maximum is reached.
    pub fn offer(&self, protocol: HeaderValue) -> Option<(ProtocolSwitch, AwaitedSwitch)> {
        let entered = self
            .open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
                (open < self.most).then_some(open + 1)
            });
        entered.ok()?;
        let slot = TunnelSlot(Arc::clone(&self.open));
        let (sender, stream) = oneshot::channel();
        let switch = ProtocolSwitch {
            protocol: protocol.clone(),
            hand_over: Arc::new(Lock::new(Some(sender))),
        };
        let awaited = AwaitedSwitch {
            protocol,
            stream,
            slot,
        };
        Some((switch, awaited))
    }
}

/// The upstream's end of a requested tunnel.
#[derive(Clone, Debug)]
pub struct ProtocolSwitch {
    protocol: HeaderValue,
    hand_over: Arc<Lock<Option<oneshot::Sender<TunnelStream>>>>,
}

impl ProtocolSwitch {
    /// Adds the request for the protocol to the fields of a request.
    pub(super) fn write_fields(&self, fields: &mut HeaderMap) {
        fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        fields.insert(UPGRADE, self.protocol.clone());
    }

    /// Whether a 101 agrees to exactly the requested protocol.
    pub(super) fn is_agreed(&self, fields: &HeaderMap) -> bool {
        let mut protocols = fields.get_all(UPGRADE).iter();
        let (Some(protocol), None) = (protocols.next(), protocols.next()) else {
            return false;
        };
        protocol
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(self.protocol.as_bytes())
    }

    /// Passes the connection on. It is closed if no front thread waits for it any more.
    pub(super) fn done(&self, stream: TunnelStream) {
        let waiting = self.hand_over.lock().take();
        if let Some(waiting) = waiting {
            let _ = waiting.send(stream);
        }
    }
}

/// The client's end of a requested tunnel, until the upstream has responded.
#[derive(Debug)]
pub struct AwaitedSwitch {
    protocol: HeaderValue,
    stream: oneshot::Receiver<TunnelStream>,
    slot: TunnelSlot,
}

impl AwaitedSwitch {
    /// The tunnel, if the upstream has agreed.
    pub fn begin(mut self) -> Option<Tunnel> {
        Some(Tunnel {
            protocol: self.protocol,
            stream: self.stream.try_recv().ok()?,
            _slot: self.slot,
        })
    }
}

/// A connection that has switched to another protocol.
#[derive(Debug)]
pub struct Tunnel {
    /// The protocol.
    pub protocol: HeaderValue,
    /// The connection to the upstream.
    pub stream: TunnelStream,
    _slot: TunnelSlot,
}

/// Counts one tunnel until it is dropped.
#[derive(Debug)]
struct TunnelSlot(Arc<AtomicUsize>);

impl Drop for TunnelSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

    #[test]
    fn dropped_tunnels_free_their_slots() {
        let tunnels = Tunnels::new(2, Duration::ZERO);
        let first = tunnels.offer(WEBSOCKET).unwrap();
        let second = tunnels.offer(WEBSOCKET).unwrap();
        assert!(tunnels.offer(WEBSOCKET).is_none());
        let (switch, awaited) = first;
        drop(switch);
        assert!(awaited.begin().is_none());
        assert_eq!(tunnels.open(), 1);
        drop(second);
        assert_eq!(tunnels.open(), 0);
        assert!(Tunnels::new(0, Duration::ZERO).offer(WEBSOCKET).is_none());
    }

    #[test]
    fn only_the_requested_protocol_is_agreed() {
        let (switch, _awaited) = Tunnels::new(1, Duration::ZERO).offer(WEBSOCKET).unwrap();
        for (values, agreed) in [
            (&[][..], false),
            (&["websocket"], true),
            (&["WebSocket "], true),
            (&["h2c"], false),
            (&["websocket, h2c"], false),
            (&["websocket", "h2c"], false),
            (&[""], false),
        ] {
            let mut fields = HeaderMap::new();
            for value in values {
                fields.append(UPGRADE, value.parse().unwrap());
            }
            assert_eq!(switch.is_agreed(&fields), agreed, "{values:?}");
        }
    }
}
