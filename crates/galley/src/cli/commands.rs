//! Runs the command that the arguments name; the short ones are defined here.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use galley_config::ConfigSource;

use super::options::{Cli, Command, PrivilegedOptions, RunOptions, StatusOptions};
use galley_operator::ask::response;
use galley_operator::outcome::{DEFAULT_CONFIG, EXIT_USAGE, fail, print_diagnostics, talk};
use galley_operator::{ask, show};

use super::{
    audit, check, crawlers, dashboard, doctor, examples, purge, reload, upgrade, verdict, why,
};
use crate::app::{self, Inheritance};
use crate::binary_upgrade::Predecessor;

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let options = Cli::from_arg_matches(&command().get_matches());
    // The matches are those of this definition.
    match options.unwrap_or_else(|error| error.exit()).command {
        Command::Run(options) => run(&options),
        Command::Check(options) => check::check(&options),
        Command::Reload(options) => reload::reload(&options),
        Command::Upgrade(options) => upgrade::upgrade(&options),
        Command::Purge(options) => purge::purge(&options),
        Command::Audit(options) => audit::audit(&options),
        Command::Status(options) => status(&options),
        Command::Dashboard(options) => dashboard::dashboard(&options),
        Command::Why(options) => why::why(&options),
        Command::Crawlers(options) => crawlers::crawlers(&options),
        Command::Doctor(options) => doctor::doctor(&options),
        Command::Setup(options) => galley_operator::setup(&options),
        Command::Import(options) => galley_operator::import(&options),
        Command::Load(options) => galley_operator::load(&options),
        Command::Plugin(command) => galley_operator::plugin(&command),
        Command::Privileged(options) => privileged(&options),
    }
}

/// The definition of the command line, for manual pages and shell completions.
pub fn command() -> clap::Command {
    examples::add(Cli::command())
}

fn run(options: &RunOptions) -> ExitCode {
    let (before, inheritance) = match inherited() {
        Ok(inherited) => inherited,
        Err(error) => {
            return fail(&format!(
                "cannot take over from the previous process: {error}"
            ));
        }
    };
    let refuse = |why: &str, needs_restart| {
        if let Some(before) = &before {
            before.refuse(why, needs_restart);
        }
    };
    let source = match (&options.config, &options.root) {
        (_, Some(root)) => ConfigSource::root(root, options.listen),
        (config, None) => {
            ConfigSource::file(config.as_deref().unwrap_or(Path::new(DEFAULT_CONFIG)))
        }
    };
    let config = match source.load(&inheritance.certificates()) {
        Ok(config) => config,
        Err(diagnostics) => {
            refuse(&diagnostics.to_string(), false);
            return print_diagnostics(&diagnostics);
        }
    };
    let Err(error) = app::run(&config, source, before.as_ref(), inheritance, &talk) else {
        return ExitCode::SUCCESS;
    };
    let Some(finding) = error.finding(&config) else {
        refuse(&error.to_string(), error.needs_restart());
        return fail(&error.to_string());
    };
    let diagnostics = config.diagnostics(&[finding]).to_string();
    refuse(&diagnostics, error.needs_restart());
    show::talk_lines(&diagnostics);
    if error.is_configuration() {
        ExitCode::from(EXIT_USAGE)
    } else {
        ExitCode::FAILURE
    }
}

/// The process that has started this one, if there is one, and the parts that it hands over.
fn inherited() -> io::Result<(Option<Predecessor>, Inheritance)> {
    let Some(before) = Predecessor::inherited()? else {
        return Ok((None, Inheritance::default()));
    };
    match Inheritance::receive(&before) {
        Ok(inheritance) => Ok((Some(before), inheritance)),
        Err(error) => {
            before.refuse(&error.to_string(), false);
            Err(error)
        }
    }
}

fn privileged(options: &PrivilegedOptions) -> ExitCode {
    let outcome = match (options.pool, options.place) {
        (Some(pool), Some(place)) => Err(galley_php::privileged::step(pool, place)),
        _ => galley_php::privileged::keep(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

fn status(options: &StatusOptions) -> ExitCode {
    let status = ask::admin(&options.admin).and_then(|admin| admin.get("/status"));
    let mut is_fine = true;
    let code = response(status, |value| {
        if options.json {
            // Programs read `health`.
            return show::data(value);
        }
        for text in verdict::lines(value) {
            show::line(&text);
        }
        show::status(value, &verdict::slots(value));
        is_fine = if options.serving {
            verdict::is_serving(value)
        } else {
            verdict::is_fine(value)
        };
    });
    if is_fine { code } else { ExitCode::FAILURE }
}
