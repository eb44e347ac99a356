//! What members and visitors with a cart have of their own: private fragments, and which stored pages these can be put into.
//!
//! [`PrivateStore`] is apart from all that is shared: [`crate::memory::Memory`] and [`crate::disk`] never see a private byte.
//! A fragment is found only with the hash of the cookies that it was generated for, under a key that no other process knows. It is
//! an [`crate::entry::Entry`], so purges reach it as they reach pages.

mod session;
mod store;
mod verdicts;

pub use self::session::{SessionTicket, VisitorId};
pub use self::store::{OwnFragment, OwnFragments, PrivateCounts, PrivateStore, SessionEnd};
pub use self::verdicts::ReportedDifference;

#[cfg(test)]
mod tests;
