//! A connection to an HTTP upstream that becomes something else than HTTP (RFC 9110 §7.8): a WebSocket above all.
//!
//! A request whose client asks for it carries a [`Switch`]. Only a 101 that names the protocol that was asked for makes the
//! connection a tunnel, which goes to the front that waits for the answer; any other answer is an answer like others. So no
//! byte of the client's reaches the upstream outside of HTTP before both have agreed. How many tunnels there may be is
//! decided before the upstream is asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;

/// Both directions of a connection to an upstream, with what it has sent already.
pub type TunnelStream = TokioIo<Upgraded>;

/// All tunnels, and how many there may be.
#[derive(Debug)]
pub struct Tunnels {
    open: Arc<AtomicUsize>,
    most: usize,
    silence: Duration,
}

impl Tunnels {
    /// The same connections under other limits.
    #[must_use]
    pub fn with(&self, most: usize, silence: Duration) -> Self {
        Self {
            open: Arc::clone(&self.open),
            most,
            silence,
        }
    }

    /// At most so many at one time; one that carries nothing for `silence` ends.
    pub fn new(most: usize, silence: Duration) -> Self {
        Self {
            open: Arc::default(),
            most,
            silence,
        }
    }

    /// How many there are, with those that are being asked for.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// How long one may carry nothing.
    pub fn silence(&self) -> Duration {
        self.silence
    }

    /// A place for one more, and the two ends of its way; `None`: there are as many as may be.
    pub fn offer(&self, protocol: HeaderValue) -> Option<(Switch, AwaitedSwitch)> {
        let entered = self
            .open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
                (open < self.most).then_some(open + 1)
            });
        entered.ok()?;
        let place = TunnelSlot(Arc::clone(&self.open));
        let (sender, stream) = oneshot::channel();
        let switch = Switch {
            protocol: protocol.clone(),
            hand_over: Arc::new(Mutex::new(Some(sender))),
        };
        let awaited = AwaitedSwitch {
            protocol,
            stream,
            slot: place,
        };
        Some((switch, awaited))
    }
}

/// The upstream's end: what is asked for.
#[derive(Clone, Debug)]
pub struct Switch {
    protocol: HeaderValue,
    hand_over: Arc<Mutex<Option<oneshot::Sender<TunnelStream>>>>,
}

impl Switch {
    /// Asks for the protocol in the head of a request.
    pub(super) fn ask(&self, fields: &mut HeaderMap) {
        fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        fields.insert(UPGRADE, self.protocol.clone());
    }

    /// Whether a 101 agrees to what was asked for, and to nothing else.
    pub(super) fn is_agreed(&self, fields: &HeaderMap) -> bool {
        let mut named = fields.get_all(UPGRADE).iter();
        let (Some(protocol), None) = (named.next(), named.next()) else {
            return false;
        };
        protocol
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(self.protocol.as_bytes())
    }

    /// Hands the connection over; it is closed where nobody waits any more.
    pub(super) fn done(&self, stream: TunnelStream) {
        let waiting = self.hand_over.lock();
        let waiting = waiting.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waiting) = waiting {
            let _ = waiting.send(stream);
        }
    }
}

/// The client's end, until the upstream has answered.
#[derive(Debug)]
pub struct AwaitedSwitch {
    protocol: HeaderValue,
    stream: oneshot::Receiver<TunnelStream>,
    slot: TunnelSlot,
}

impl AwaitedSwitch {
    /// The tunnel, if the upstream's answer has made one.
    pub fn begin(mut self) -> Option<Tunnel> {
        Some(Tunnel {
            protocol: self.protocol,
            stream: self.stream.try_recv().ok()?,
            _place: self.slot,
        })
    }
}

/// A connection that is no HTTP any more.
#[derive(Debug)]
pub struct Tunnel {
    /// What it has become.
    pub protocol: HeaderValue,
    /// The upstream.
    pub stream: TunnelStream,
    _place: TunnelSlot,
}

/// Counts as one of the tunnels that there may be.
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
    fn places_come_back() {
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
    fn only_what_was_asked_for_is_agreed() {
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
