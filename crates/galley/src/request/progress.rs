//! Results of earlier stages that an exchange carries to later ones: the verdict of access control, and the lookup of the
//! fast path.

use std::sync::Arc;

use galley_cache::entry::Entry;
use galley_policy::access::BodyCheck;

/// Whether access control has granted a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessState {
    /// It has not been checked.
    #[default]
    Unchecked,
    /// It is granted.
    Granted {
        /// What its body has to be checked for.
        body: Option<BodyCheck>,
        /// Whether a password granted it, which PHP must not see.
        hides_password: bool,
        /// Whether its body must not select a page.
        form: bool,
    },
}

impl AccessState {
    /// Whether the request is granted whatever its body contains.
    pub(super) fn is_settled(self) -> bool {
        matches!(
            self,
            Self::Granted {
                body: None,
                form: false,
                ..
            }
        )
    }
}

/// What the fast path found in memory for a request that it does not answer, so that it need not be looked up again.
#[derive(Debug, Default)]
pub enum EarlierLookup {
    /// Nothing was looked up.
    #[default]
    None,
    /// Nothing is stored under the request's key in memory; the disk may hold something.
    NotInMemory,
    /// Nothing is stored under the request's key, neither in memory nor on disk.
    Nothing,
    /// The entry of the request's key.
    Found(Arc<Entry>),
}
