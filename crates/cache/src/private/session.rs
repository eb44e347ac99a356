//! The session of a visitor, and the end of its fragments' validity.
//!
//! A session ends with its cookies: with a login, a logout, and every request that may change something. Fragments from
//! before are not used any more, including those that are still being generated. For this purpose each cookie of a session has
//! a number that such a request increments, and a fragment is used only while the numbers are those from before it was
//! generated. Several cookies share a number: that sometimes invalidates a fragment unnecessarily, but needs no memory for
//! sessions that have ended.

use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering};

use galley_policy::private::owners;
use siphasher::sip128::{Hasher128, SipHasher24};

/// One visitor: the cookies by which PHP identifies them, their browser, and the variant of the pages for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitorId {
    pub(super) id: u128,
    /// The indexes of the numbers of the visitor's cookies.
    owners: Box<[usize]>,
}

/// The sum of a session's numbers at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionTicket(u64);

/// See the module.
#[derive(Debug)]
pub(super) struct SessionNumbers {
    secret: (u64, u64),
    numbers: Box<[AtomicU64]>,
}

impl SessionNumbers {
    pub(super) fn new(secret: [u64; 2]) -> Self {
        Self {
            secret: secret.into(),
            numbers: (0..NUMBERS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// A hash that cannot be computed outside of this process.
    pub(super) fn hash(&self, parts: &[&[u8]]) -> u128 {
        let mut hasher = SipHasher24::new_with_keys(self.secret.0, self.secret.1);
        for part in parts {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        hasher.finish128().as_u128()
    }

    /// `cookies`: in the format of `galley_policy::private::session_cookies`.
    pub(super) fn visitor(&self, variant: u64, cookies: &[u8], agent: &[u8]) -> VisitorId {
        let place = |pair: galley_policy::cookie::CookiePair<'_>| {
            let hash = self.hash(&[b"owner", pair.name, pair.value]);
            usize::try_from(hash % (NUMBERS as u128)).unwrap_or_default()
        };
        VisitorId {
            id: self.hash(&[b"visitor", &variant.to_le_bytes(), cookies, agent]),
            owners: owners(cookies).map(place).collect(),
        }
    }

    pub(super) fn ticket(&self, visitor: &VisitorId) -> SessionTicket {
        let numbers = visitor
            .owners
            .iter()
            .filter_map(|place| self.numbers.get(*place));
        // Each number only rises, so an equal sum means equal numbers.
        SessionTicket(
            numbers
                .map(|number| number.load(Ordering::Acquire))
                .fold(0, u64::wrapping_add),
        )
    }

    pub(super) fn end(&self, visitor: &VisitorId) {
        for number in visitor
            .owners
            .iter()
            .filter_map(|place| self.numbers.get(*place))
        {
            number.fetch_add(1, Ordering::Release);
        }
    }
}

/// The number of counters for the cookies of all sessions. They use 128 KiB for a site with members.
const NUMBERS: usize = 16 * 1024;
