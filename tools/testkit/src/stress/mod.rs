//! Stress tests: what visitors of stored pages see under adverse load.
//!
//! [`Part::Soak`] is a long plain load, a tenth of it uncached through a real PHP-FPM. All other parts run a real WordPress
//! with its database, PHP-FPM and the server together in 256 MB, with default settings: many concurrent misses, slow clients, PHP
//! that is killed, crawls. Each part yields one [`Row`]: requests, failures although a copy existed, the longest wait, the times
//! of a stored page and of an editor's save before and under load, and the resources of the server first and last. The short
//! form belongs to the tests and judges no time.

mod crawl;
mod crowd;
mod editor;
mod killed;
mod part;
mod probe;
mod resources;
mod row;
mod setting;
mod slow;
mod soak;
mod stage;
mod visitors;

pub use part::Part;
pub use resources::Held;
pub use row::{Row, Times};
pub use setting::{Form, Setting};
