//! Edge Side Includes (ESI Language Specification 1.0): `<esi:include>`, `<esi:remove>`, `<esi:comment>` and `<!--esi -->`.
//!
//! [`announcement`] says which responses contain tags, [`template`] finds them, [`target`] says what an include may request. The other
//! tags of the language (variables, conditions) are not implemented and stay in the page.
//! Tags come from the body of a response, in which a visitor's text may stand, so all of this is total, and [`target`] trusts nothing.

pub mod announcement;
mod attributes;
mod limits;
pub mod target;
pub mod template;

pub use self::limits::{MAX_DEPTH, MAX_INCLUDES};
