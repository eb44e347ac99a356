//! `xtask exactness installed`: the measurement on any plugins and themes, with PHP scripts as events.

use std::{fs, path::PathBuf, time::Instant};

use galley_testkit::exactness::{
    ExactnessSettings, PurgeMethod,
    installed::{self, InstalledSettings},
};

use super::{Common, print_progress, table};
use crate::error::CommandError;

/// The options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct InstalledArguments {
    /// Folder with plugins (folders or PHP files) and themes (folders with style.css)
    #[arg(long, value_name = "DIR")]
    plugins: PathBuf,
    /// Folder with PHP scripts: one edit each, and setup.php, which makes the content
    #[arg(long, value_name = "DIR")]
    events: PathBuf,
    /// Maximum number of pages to compare
    #[arg(long, default_value_t = 80)]
    pages: usize,
}

/// Runs the events and prints the tables.
pub(super) fn run(
    arguments: &InstalledArguments,
    common: &Common<'_>,
    settings: &ExactnessSettings,
) -> Result<(), CommandError> {
    let methods = &common.methods;
    let settings = ExactnessSettings {
        methods: methods.clone(),
        ..settings.clone()
    };
    let start = Instant::now();
    let installed = installed::run(
        &InstalledSettings {
            galley: settings.galley.clone(),
            plugin: settings.plugin.clone(),
            methods: methods.clone(),
            plugins: arguments.plugins.clone(),
            events: arguments.events.clone(),
            pages: arguments.pages,
        },
        &mut |progress| print_progress(&progress, &settings, common.explain, start),
    )?;
    let report = &installed.report;
    print!("{}", table::markdown(methods, report));
    println!("Active: {}\n", installed.active.join(", "));
    if !installed.varying.is_empty() {
        println!(
            "Left out, because they differ without an edit: {}\n",
            installed.varying.join(" ")
        );
    }
    if let Some(path) = common.json {
        let mut json = table::json(methods, report);
        json["active"] = installed.active.clone().into();
        json["varying"] = installed.varying.clone().into();
        let text = serde_json::to_string_pretty(&json)?;
        fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    println!("{}", table::last_line(methods, report));
    let stale = report.total(0).stale;
    if methods.first() == Some(&PurgeMethod::Galley) && stale > 0 {
        return Err(
            format!("{stale} pages were stale after an edit: use --explain to list them").into(),
        );
    }
    Ok(())
}
