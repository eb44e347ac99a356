//! Describes the contents of the `galley` binary for packages: a bill of materials (`CycloneDX` 1.5, JSON) and the licence texts
//! of third parties.
//!
//! Both are generated from `cargo metadata` and the sources of the crates, without network access. The output is reproducible.

mod crates;
mod cyclonedx;
mod licences;

pub use crates::{LinkedCrate, linked_crates};
pub use cyclonedx::bill_of_materials;
pub use licences::{licence_expression, third_party_licences};
