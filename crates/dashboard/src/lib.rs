//! The parts that both dashboards share: the files of the page, sessions, the checks of requests, and the queries of the page.
//!
//! `cli::dashboard` serves one dashboard on a loopback address while `galley dashboard` runs; `admin::site_dashboard` serves that
//! of one site on the site's address. Neither stores data: all of it comes from the admin interface.

mod assets;
mod calls;
mod guard;
mod sessions;

pub use assets::{DashboardAsset, find_asset};
pub use calls::{AdminCall, MAX_BODY, action, read};
pub use guard::{check, one, protect, secrets};
pub use sessions::{SESSION_LIFETIME, SessionSecrets, Sessions};
