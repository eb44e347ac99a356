//! What the dashboards have in common: the files of the page, sessions, the checks of each request, and what the page may ask.
//!
//! There are two. `cli::dashboard` serves one on a loopback address while `galley dashboard` runs; `admin::site_dashboard` serves
//! that of one site on its own address. Both hold no figures: every answer is one of the admin interface.

mod assets;
mod calls;
mod guard;
mod sessions;

pub use assets::{DashboardAsset, find_asset};
pub use calls::{AdminCall, MOST_BODY, order, read};
pub use guard::{check, one, protect, secrets};
pub use sessions::{SESSION_LIFETIME, SessionSecrets, Sessions};
