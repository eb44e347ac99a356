//! The state of a certificate for people. Its keeper writes it, the admin thread reads it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// A certificate that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedCertificate {
    /// How people name the site.
    pub site: String,
    /// The site's place among all.
    pub number: u32,
    /// Canonical host names, none twice; never empty, at most [`MOST_NAMES`].
    pub names: Vec<String>,
}

/// A certificate that is kept, and how it stands.
pub struct CertificateStatus {
    pub(super) wanted: WantedCertificate,
    state: Mutex<StatusFields>,
}

/// Its present state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusFields {
    /// The names that it is wanted for.
    pub names: Vec<String>,
    /// Until when the one in use is valid; `None`: there is none.
    pub not_after: Option<SystemTime>,
    /// When it is ordered next.
    pub next: Option<SystemTime>,
    /// Whether an order is in progress.
    pub is_ordering: bool,
    /// Why the last order failed; `None` after a success.
    pub trouble: Option<String>,
    /// Certificates that were issued since the start.
    pub issued: u64,
    /// Orders that failed since the start.
    pub failures: u64,
    /// Orders that failed since one did not.
    pub failures_in_a_row: u32,
}

impl CertificateStatus {
    pub(super) fn new(wanted: WantedCertificate) -> Self {
        let state = StatusFields {
            names: wanted.names.clone(),
            ..StatusFields::default()
        };
        Self {
            wanted,
            state: Mutex::new(state),
        }
    }

    /// The same as `before`, which was a certificate of the same names: the results of its orders are kept.
    pub(super) fn after(wanted: WantedCertificate, before: &Self) -> Self {
        let state = StatusFields {
            is_ordering: false,
            ..before.state()
        };
        Self {
            wanted,
            state: Mutex::new(state),
        }
    }

    /// A copy of the state.
    pub fn state(&self) -> StatusFields {
        self.lock().clone()
    }

    pub(super) fn note(&self, change: impl FnOnce(&mut StatusFields)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, StatusFields> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What Let's Encrypt puts into one certificate at most; other directories allow no more.
pub const MOST_NAMES: usize = 100;
