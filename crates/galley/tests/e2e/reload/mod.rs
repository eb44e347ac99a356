//! Reloading the configuration: what changes, what stays, and that nobody notices.

mod changes;
mod load;
mod php;
mod refused;
mod upgrades;

use std::fs;
use std::process::Output;

use crate::support::{TestSite, output_text};

/// The configuration that the stage was started with.
fn config(site: &TestSite) -> String {
    fs::read_to_string(site.galley.config()).unwrap()
}

/// Writes another configuration in one step and has it read.
fn reload_with(site: &TestSite, config: &str) -> Output {
    let file = site.galley.config();
    let new = file.with_extension("new");
    fs::write(&new, config).unwrap();
    fs::rename(&new, file).unwrap();
    site.galley.cli(&["reload"]).unwrap()
}

/// The same, and it must succeed. What it says.
#[track_caller]
fn reloaded(site: &TestSite, config: &str) -> String {
    let output = reload_with(site, config);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}\n{}",
        output_text(&output),
        site.galley.log()
    );
    output_text(&output)
}
