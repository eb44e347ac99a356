//! What only RFC 9111 knows, for sites with `preset = "none"`: variants, validation, stored parts, equivalent addresses.
//!
//! The fetch itself is the same for all sites (`fetch::join`, `lead`, `store`). A request is forwarded as the client sent
//! it, so that a response which may not be stored is for the client whose request it answers, and those who waited ask for
//! themselves (section 4, collapsed requests).

pub mod equivalents;
mod learn;
mod parts;
mod revalidate;
pub mod variants;

pub use super::jobs::{LearnFromPass, PassLesson};
pub(super) use learn::{BodyCopy, publish_purges};
pub(super) use revalidate::{HeadUpdate, Validated};
