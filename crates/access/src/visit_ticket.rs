//! Signed tickets: a client that requests the style sheet with its ticket in the name has loaded the page that names it.
//!
//! ```text
//! <time of issue in ms, hexadecimal>-<SipHash of client and time, 16 hexadecimal digits>
//! ```
//!
//! A ticket is for one client and a minute. The key is drawn at the start of the process and never leaves it.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use galley_policy::class::Network;
use galley_policy::time::Tick;
use siphasher::sip::SipHasher13;

use super::visits::Visits;

impl Visits {
    /// A ticket for a client.
    pub fn ticket(&self, client: IpAddr, now: Tick) -> String {
        format!("{:x}-{:016x}", now.0, self.sign(client, now.0))
    }

    /// Whether a text is a ticket of this client that is still valid.
    pub fn is_ticket(&self, text: &[u8], client: IpAddr, now: Tick) -> bool {
        let text = std::str::from_utf8(text).ok();
        let Some((issued, signature)) = text.and_then(|text| text.split_once('-')) else {
            return false;
        };
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (Some(issued), Some(signature)) = (number(issued), number(signature)) else {
            return false;
        };
        let age = now.0.checked_sub(issued);
        age.is_some_and(|age| age < VALID_MS) && signature == self.sign(client, issued)
    }

    fn sign(&self, client: IpAddr, issued: u64) -> u64 {
        let (one, other) = self.ticket_key;
        let mut hasher = SipHasher13::new_with_keys(one, other);
        Network::of(client).hash(&mut hasher);
        hasher.write_u64(issued);
        hasher.finish()
    }
}

/// A minute: a slow connection loads a style sheet of 200 bytes within it.
const VALID_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_ticket_is_for_one_client_and_a_minute() {
        let visits = Visits::new();
        let of = |text: &str| text.parse::<IpAddr>().unwrap();
        let (client, now) = (of("192.0.2.1"), Tick(5_000));
        let ticket = visits.ticket(client, now);
        let is_valid = |client, at| visits.is_ticket(ticket.as_bytes(), client, Tick(at));
        assert!(is_valid(client, 5_000) && is_valid(client, 5_000 + VALID_MS - 1));
        assert!(!is_valid(client, 5_000 + VALID_MS) && !is_valid(client, 4_999));
        assert!(!is_valid(of("192.0.2.2"), 5_000));
        assert!(!Visits::new().is_ticket(ticket.as_bytes(), client, now));
    }

    proptest! {
        #[test]
        fn other_texts_are_no_tickets(text in proptest::collection::vec(any::<u8>(), 0..40), at in any::<u64>()) {
            let client = IpAddr::from([192, 0, 2, 1]);
            prop_assert!(!Visits::new().is_ticket(&text, client, Tick(at)));
        }

        #[test]
        fn a_changed_ticket_is_none(position in 0_usize..20, digit in "[0-9a-f]") {
            let (visits, client) = (Visits::new(), IpAddr::from([192, 0, 2, 1]));
            let ticket = visits.ticket(client, Tick(0xabcd));
            let mut changed = ticket.clone();
            let position = position.min(ticket.len() - 1);
            changed.replace_range(position..=position, &digit);
            prop_assume!(changed != ticket);
            prop_assert!(!visits.is_ticket(changed.as_bytes(), client, Tick(0xabcd + 10)));
        }
    }
}
