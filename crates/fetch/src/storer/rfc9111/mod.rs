//! Features of RFC 9111 for sites with `preset = "none"`: variants, validation, stored partial responses, equivalent
//! addresses.
//!
//! The fetch itself is the same for all sites (`fetch::join`, `lead`, `store`). A request is forwarded as the client sent it, so a
//! response that may not be stored is sent only to the client that requested it, and waiting requests are forwarded separately
//! (section 4, collapsed requests).

pub mod equivalents;
mod learn;
mod parts;
mod revalidate;
pub mod variants;

pub use crate::jobs::{PassedResponseKind, PassedResponseUse};
pub(crate) use learn::{BodyCopy, publish_purges};
pub(crate) use revalidate::{HeadUpdate, Validated};
