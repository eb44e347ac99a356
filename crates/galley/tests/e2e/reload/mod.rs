//! Reloading the configuration: what changes, what stays, and that nobody notices.

mod changes;
mod load;
mod php;
mod refused;
mod upgrades;

use std::fs;
use std::process::Output;

use crate::support::{Stage, words};

/// The configuration that the stage was started with.
fn config(stage: &Stage) -> String {
    fs::read_to_string(stage.galley.config()).unwrap()
}

/// Writes another configuration in one step and has it read.
fn reload_with(stage: &Stage, config: &str) -> Output {
    let file = stage.galley.config();
    let new = file.with_extension("new");
    fs::write(&new, config).unwrap();
    fs::rename(&new, file).unwrap();
    stage.galley.cli(&["reload"]).unwrap()
}

/// The same, and it must succeed. What it says.
#[track_caller]
fn reloaded(stage: &Stage, config: &str) -> String {
    let output = reload_with(stage, config);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}\n{}",
        words(&output),
        stage.galley.log()
    );
    words(&output)
}
