//! Checks of the machine: the limits that bring a web server down although it works correctly.
//!
//! Every check reads values of the kernel, PHP or WordPress, compares them with a limit, and returns a [`DoctorFinding`]: the
//! measured value, why it matters, and the command that fixes it. Nothing is changed. If a check is not possible, the finding
//! is "unknown", never "fine".

mod certificate;
mod checks;
mod clock;
mod disk;
mod finding;
mod limits;
mod machine;
mod memory;
mod network;
mod object_cache;
mod php;
mod quic;
mod recent;
mod server;
mod visits;
mod wordpress;

pub use certificate::{certificate, stored_certificate};
pub use checks::{machine, site, unreachable};
pub use finding::{DoctorFinding, Severity, date_findings};
pub use machine::ProcFs;
pub use memory::MemoryPlan;
pub use object_cache::object_findings;
pub use php::{PhpProbe, ask};
pub use quic::quic_findings;
pub use recent::{KernelCounters, RecentCounters};
pub use server::spool_findings;
pub use visits::visit_findings;

use finding::percent;
use galley_config::rounded_size as size;
