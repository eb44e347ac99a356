//! The limit of bytes to an address that may be another host's (RFC 9000 section 8.1).
//!
//! The library of QUIC permits one datagram more, and does not count the packet that ends a connection. So bytes are counted here, and a
//! datagram that exceeds the limit is held until the client has sent more.

use quinn_proto::Transmit;

/// The bytes of a connection until the address of its client is validated.
#[derive(Debug, Default)]
pub(super) struct UnvalidatedAddress {
    received: usize,
    sent: usize,
    is_validated: bool,
    held: Option<(Transmit, Vec<u8>)>,
}

impl UnvalidatedAddress {
    /// Counts a datagram of the client.
    pub(super) fn received(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes);
    }

    /// Whether there is no limit any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_validated
    }

    /// Counts a datagram to the client. False: it must not be sent.
    pub(super) fn may_send(&mut self, bytes: usize) -> bool {
        let sent = self.sent.saturating_add(bytes);
        let is_permitted = self.is_validated || sent <= self.received.saturating_mul(FACTOR);
        if is_permitted {
            self.sent = sent;
        }
        is_permitted
    }

    /// Keeps a datagram that must not be sent yet.
    pub(super) fn hold(&mut self, transmit: Transmit, bytes: &[u8]) {
        self.held = Some((transmit, bytes.to_vec()));
    }

    /// Appends the datagram that was held to `out`.
    pub(super) fn take_held(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        let (transmit, bytes) = self.held.take()?;
        out.extend_from_slice(&bytes);
        Some(transmit)
    }

    /// The client receives at its address.
    pub(super) fn end(&mut self) {
        self.is_validated = true;
    }
}

const FACTOR: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_times_as_much_until_the_address_is_validated() {
        let mut address = UnvalidatedAddress::default();
        assert!(!address.may_send(1));
        address.received(1200);
        assert!(address.may_send(3600));
        assert!(!address.may_send(1));
        address.received(1);
        assert!(address.may_send(3));
        address.end();
        assert!(address.may_send(1 << 20));
    }
}
