//! The state of a certificate for the admin interface. Written by its keeper, read by the admin thread.

use galley_sys::Lock;
use std::time::SystemTime;

/// A certificate to obtain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedCertificate {
    /// The site's name for people.
    pub site: String,
    /// The site's index.
    pub number: u32,
    /// Canonical host names without duplicates; never empty, at most [`MAX_NAMES`].
    pub names: Vec<String>,
}

/// A managed certificate with its state.
pub struct CertificateStatus {
    pub(super) wanted: WantedCertificate,
    state: Lock<StatusFields>,
}

/// The state of a managed certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusFields {
    /// The wanted names.
    pub names: Vec<String>,
    /// The end of validity of the certificate in use; `None` if there is none.
    pub not_after: Option<SystemTime>,
    /// The time of the next order.
    pub next: Option<SystemTime>,
    /// Whether an order is in progress.
    pub is_ordering: bool,
    /// The reason why the last order failed; `None` after a success.
    pub trouble: Option<String>,
    /// The number of certificates issued since the start.
    pub issued: u64,
    /// The number of failed orders since the start.
    pub failures: u64,
    /// The number of consecutive failed orders.
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
            state: Lock::new(state),
        }
    }

    /// Continues `before`, a certificate for the same names: the results of its orders are kept.
    pub(super) fn after(wanted: WantedCertificate, before: &Self) -> Self {
        let state = StatusFields {
            is_ordering: false,
            ..before.state()
        };
        Self {
            wanted,
            state: Lock::new(state),
        }
    }

    /// A copy of the state.
    pub fn state(&self) -> StatusFields {
        self.state.lock().clone()
    }

    pub(super) fn note(&self, change: impl FnOnce(&mut StatusFields)) {
        change(&mut self.state.lock());
    }
}

/// The maximum number of names in one certificate of Let's Encrypt; other directories do not permit more.
pub const MAX_NAMES: usize = 100;
