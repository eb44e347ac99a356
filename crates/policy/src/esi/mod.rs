//! Edge Side Includes (ESI Language Specification 1.0): `<esi:include>`, `<esi:remove>`, `<esi:comment>` and `<!--esi -->`.
//!
//! [`announcement`] determines which responses contain tags, [`template`] finds the tags, [`target`] decides what an include
//! may request. The other tags of the language (variables, conditions) are not implemented and stay in the page. Tags are part
//! of the body of a response, which may contain a visitor's text, so all code accepts any input, and [`target`] trusts none.

pub mod announcement;
mod attributes;
mod limits;
pub mod target;
pub mod template;

pub use self::limits::{MAX_DEPTH, MAX_INCLUDES};
