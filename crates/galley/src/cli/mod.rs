//! The command line: `run`, `check`, `purge`, `status`, `why`, `doctor`, `plugin`.
//!
//! Data goes to stdout, talk to stderr. Exit codes: 0 fine, 1 failed, 2 wrong usage or configuration.

mod ask;
mod check;
mod doctor;
mod options;
mod plugin;
mod show;
mod why;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use galley_config::{Complaints, Config};
use serde_json::{Value, json};

use crate::{app, php};
use options::{Cli, Command, PrivilegedOptions, PurgeOptions, RunOptions, StatusOptions};

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(options) => run(&options),
        Command::Check(options) => check::check(options.config.as_deref(), options.json),
        Command::Purge(options) => purge(&options),
        Command::Status(options) => status(&options),
        Command::Why(options) => why::why(&options),
        Command::Doctor(options) => doctor::doctor(&options),
        Command::Plugin(command) => plugin::plugin(&command),
        Command::Privileged(options) => privileged(&options),
    }
}

fn run(options: &RunOptions) -> ExitCode {
    let config = match (&options.config, &options.root) {
        (_, Some(root)) => galley_config::for_root(root),
        (config, None) => {
            galley_config::load(config.as_deref().unwrap_or(Path::new(DEFAULT_CONFIG)))
        }
    };
    let config = match config {
        Ok(config) => config,
        Err(complaints) => return complain(&complaints),
    };
    let Err(error) = app::run(&config, &talk) else {
        return ExitCode::SUCCESS;
    };
    let Some(finding) = error.finding(&config) else {
        return fail(&error.to_string());
    };
    show::talk_lines(&config.complaints(&[finding]).to_string());
    if error.is_configuration() {
        ExitCode::from(EXIT_USAGE)
    } else {
        ExitCode::FAILURE
    }
}

fn privileged(options: &PrivilegedOptions) -> ExitCode {
    let outcome = match (options.pool, options.place) {
        (Some(pool), Some(place)) => Err(php::privileged::step(pool, place)),
        _ => php::privileged::keep(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

/// For commands that wait for something.
fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| e.to_string())
}

fn purge(options: &PurgeOptions) -> ExitCode {
    let admin = match ask::admin(&options.admin) {
        Ok(admin) => admin,
        Err(ask::AdminError::Config(complaints)) => return complain(&complaints),
        Err(trouble) => return fail(&trouble.to_string()),
    };
    let order = json!({
        "site": options.site,
        "all": options.all,
        "urls": options.url,
        "tags": options.tag,
        "prefixes": options.prefix,
        "patterns": options.pattern,
        "soft": options.soft,
    });
    answer(admin.post("/purge", &order), |value| {
        if options.json {
            show::data(value);
        } else {
            talk(&format!("purged: {} order(s) in force", value["orders"]));
            if let Some(warning) = value["warning"].as_str() {
                talk(&format!("warning: {warning}"));
            }
        }
    })
}

fn status(options: &StatusOptions) -> ExitCode {
    let admin = match ask::admin(&options.admin) {
        Ok(admin) => admin,
        Err(ask::AdminError::Config(complaints)) => return complain(&complaints),
        Err(trouble) => return fail(&trouble.to_string()),
    };
    answer(admin.get("/status"), |value| {
        if options.json {
            show::data(value);
        } else {
            show::status(value);
        }
    })
}

fn answer(result: Result<Value, ask::AdminError>, show: impl FnOnce(&Value)) -> ExitCode {
    match result {
        Ok(value) => {
            show(&value);
            ExitCode::SUCCESS
        }
        Err(trouble) => fail(&trouble.to_string()),
    }
}

fn complain(complaints: &Complaints) -> ExitCode {
    show::talk_lines(&complaints.to_string());
    ExitCode::from(EXIT_USAGE)
}

fn fail(message: &str) -> ExitCode {
    talk(message);
    ExitCode::FAILURE
}

fn talk(line: &str) {
    show::talk_lines(&format!("galley: {line}"));
}

/// A configuration that the file system package installs.
const DEFAULT_CONFIG: &str = "/etc/galley/galley.toml";

/// Wrong usage or configuration; clap's own code for wrong arguments is the same.
const EXIT_USAGE: u8 = 2;

/// The configuration for commands that ask a running server.
fn configuration(path: &Path) -> Result<Config, Complaints> {
    galley_config::load(path)
}
