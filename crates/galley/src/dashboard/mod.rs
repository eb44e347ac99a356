//! What the dashboards share: the files of the page, sessions, the checks of each request, and the requests of the page.
//!
//! There are two. `cli::dashboard` serves one on a loopback address while `galley dashboard` runs; `admin::site_dashboard`
//! serves that of one site on its own address. Neither stores figures: all of them come from the admin interface.

mod assets;
mod calls;
mod guard;
mod sessions;

pub use assets::{DashboardAsset, find_asset};
pub use calls::{AdminCall, MOST_BODY, order, read};
pub use guard::{check, one, protect, secrets};
pub use sessions::{SESSION_LIFETIME, SessionSecrets, Sessions};
