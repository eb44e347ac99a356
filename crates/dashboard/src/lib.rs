//! The parts that both dashboards share: `cli::dashboard` serves one on a loopback address while `galley dashboard` runs,
//! `admin::site_dashboard` that of one site on the site's address.
//!
//! [`find_asset`] returns the files of the page, [`Sessions`] knows who has logged in, [`check`] and [`protect`] judge a request and
//! its response, [`read`] and [`action`] turn a request of the page into an [`AdminCall`].
//!
//! This crate opens no socket and stores no data: all figures come from the admin interface. It never forwards a call that is not in
//! its list.

mod assets;
mod calls;
mod guard;
mod sessions;

pub use assets::{DashboardAsset, find_asset};
pub use calls::{AdminCall, MAX_BODY, action, read};
pub use guard::{check, one, protect, secrets};
pub use sessions::{SESSION_LIFETIME, SessionSecrets, Sessions};
