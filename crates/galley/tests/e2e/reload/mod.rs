//! Reloads and upgrades: their effects, the state that they preserve, and that no request fails.

mod changes;
mod every_option;
mod load;
mod php;
mod rejected;
mod upgrades;

use std::fs;
use std::process::Output;

use crate::support::{TestSite, output_text};

/// The current content of the configuration file.
pub(crate) fn config(site: &TestSite) -> String {
    fs::read_to_string(site.galley.config()).unwrap()
}

/// Replaces the configuration file atomically and reloads it.
pub(crate) fn try_reload(site: &TestSite, config: &str) -> Output {
    let file = site.galley.config();
    let new = file.with_extension("new");
    fs::write(&new, config).unwrap();
    fs::rename(&new, file).unwrap();
    site.galley.cli(&["reload"]).unwrap()
}

/// Reloads another configuration successfully; returns the output of the command.
#[track_caller]
pub(crate) fn reload(site: &TestSite, config: &str) -> String {
    let output = try_reload(site, config);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}\n{}",
        output_text(&output),
        site.galley.log()
    );
    output_text(&output)
}
