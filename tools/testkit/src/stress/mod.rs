//! Stress tests: the responses that visitors of stored pages get under adverse load.
//!
//! [`StressPart::Soak`] is a long plain load, a tenth of it uncached through a real PHP-FPM. All other parts run a real WordPress
//! with its database, PHP-FPM and the server together in 256 MB, with default settings: many concurrent misses, slow clients, PHP
//! that is killed, crawls. Each part returns one [`PartReport`]: requests, failures although a stored page existed, the longest wait, the
//! times of a stored page and of an editor's save before and under load, and the resource usage of the server first and last. The test
//! suite runs all parts in their short version, which judges no time.

mod crawl;
mod editor;
mod killed_php;
mod many_misses;
mod part;
mod people;
mod probe;
mod report;
mod resources;
mod settings;
mod site;
mod slow_clients;
mod soak;
mod swarm;
mod verdict;
mod visitor;

pub use crate::growth::RunLength;
pub use part::StressPart;
pub use report::{Goal, PartReport, Times};
pub use resources::ResourceUsage;
pub use settings::StressSettings;
