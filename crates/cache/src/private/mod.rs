//! The private content of members and of visitors with a cart: private fragments, and the stored pages into which these can
//! be inserted.
//!
//! [`PrivateStore`] is separate from all shared stores: [`crate::memory::Memory`] and [`crate::disk`] never contain
//! a private byte. A fragment is found only with the hash of the cookies for which it was generated, under a key that no
//! other process knows. It is an [`crate::entry::Entry`], so purges reach it as they reach pages.

mod session;
mod store;
mod verdicts;

pub use self::session::{SessionTicket, VisitorId};
pub use self::store::{OwnFragment, OwnFragments, PrivateCounts, PrivateStore, SessionEnd};
pub use self::verdicts::ReportedDifference;

#[cfg(test)]
mod tests;
