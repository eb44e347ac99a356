//! What is linked into the `galley` binary, for packages: a bill of materials (`CycloneDX` 1.5, JSON) and the texts of the
//! licences of third parties.
//!
//! Both come from `cargo metadata` and the sources of the crates, so they need no network. The same sources give the same bytes.

mod bill;
mod crates;
mod licences;

pub use bill::bill;
pub use crates::{LinkedCrate, linked_crates};
pub use licences::{licence_expression, third_party_licences};
