//! Detects the WordPress sites of a machine and the servers that serve them now, for `galley setup`.
//!
//! Detection reads files below a root folder and decides nothing: processes and listeners from `/proc`, the configuration
//! of nginx, Apache and PHP-FPM, `wp-config.php`, and certificates of certbot. Every reader is total and has limits: if a file
//! is missing, unreadable or malformed, less is found. A plan turns the findings into a configuration, and a trial runs
//! that configuration on a loopback port next to the current server. Only the journal writes files, which it can restore.

mod apache;
mod certbot;
mod compare;
mod fetch;
mod find;
mod host;
mod journal;
mod listeners;
mod machine;
mod nginx;
mod pages;
mod php_fpm;
mod plan;
mod processes;
mod trial;
mod wordpress;
mod wp_config;

pub use certbot::{HOOK_FILE, certificate_copies, renewal_hook};
pub use compare::PageComparison;
pub use fetch::{PageSummary, ServerEndpoint, fetch_page};
pub use find::{DetectedSite, Detection, detect};
pub use journal::{SetupJournal, UndoResult, UndoStep};
pub use listeners::PortOwner;
pub use machine::Machine;
pub use pages::links;
pub use plan::{PhpChoice, SetupChoices, SetupPlan, SiteDraft, TlsChoice, TlsPreference};
pub use trial::{TestInstance, TrialError, compare_pages};
pub use wordpress::{WordPressInfo, query_wordpress};
