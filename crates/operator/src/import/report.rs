//! The result for each statement, for people and for scripts.

use galley_import::{Imported, ImportedStatement, StatementOutcome};
use serde_json::{Value, json};

use crate::outcome::talk;
use crate::show;

/// Prints the report for people, beginning with the statements that were not carried over.
pub(super) fn report(imported: &Imported, shows_all: bool) {
    let shares = imported.shares();
    talk(&format!(
        "import: {} statements: {} carried over, {} not needed, {} not carried",
        shares.all(),
        shares.carried,
        shares.not_needed,
        shares.not_carried
    ));
    let of = |wanted: fn(&StatementOutcome) -> bool| {
        imported
            .statements
            .iter()
            .filter(move |one| wanted(&one.outcome))
    };
    list(
        "not carried, and what it would take",
        of(|outcome| matches!(outcome, StatementOutcome::NotCarried(_))),
    );
    if shows_all {
        list(
            "not needed, and why",
            of(|outcome| matches!(outcome, StatementOutcome::NotNeeded(_))),
        );
        list(
            "carried over, and the option",
            of(|outcome| matches!(outcome, StatementOutcome::Carried(_))),
        );
    } else if shares.all() > shares.not_carried {
        show::talk_lines("\n--all lists the others, too");
    }
}

fn list<'s>(title: &str, statements: impl Iterator<Item = &'s ImportedStatement>) {
    let mut statements = statements.peekable();
    if statements.peek().is_none() {
        return;
    }
    show::talk_lines(&format!("\n{title}:"));
    for statement in statements {
        let (_, words) = words(&statement.outcome);
        show::talk_lines(&format!(
            "  {}: {}\n      {words}",
            statement.origin, statement.text
        ));
    }
}

pub(super) fn words(outcome: &StatementOutcome) -> OutcomeTexts<'_> {
    match outcome {
        StatementOutcome::Carried(option) => ("carried", option),
        StatementOutcome::NotNeeded(why) => ("not-needed", why),
        StatementOutcome::NotCarried(remedy) => ("not-carried", remedy),
    }
}

/// The word for scripts, and the text for people.
pub(super) type OutcomeTexts<'f> = (&'static str, &'f str);

pub(super) fn as_json(imported: &Imported) -> Value {
    let statements = imported.statements.iter().map(|statement| {
        let (outcome, text) = words(&statement.outcome);
        json!({
            "file": &*statement.origin.file, "line": statement.origin.line, "statement": statement.text, "outcome": outcome, "text": text,
            "open": statement.is_open,
        })
    });
    let shares = imported.shares();
    json!({
        "configuration": imported.configuration,
        "carried": shares.carried, "not_needed": shares.not_needed, "not_carried": shares.not_carried,
        "statements": statements.collect::<Vec<_>>(),
    })
}

/// Prints Galley's diagnostics about the new file: paths that do not exist here, and values that could not be converted. If
/// there are none, names the options that links out of the roots need.
pub(super) fn check(configuration: &str) {
    let config = match galley_config::from_text("galley.toml", configuration) {
        Ok(config) => config,
        Err(diagnostics) => {
            show::talk_lines("\ngalley check will report:");
            return show::talk_lines(&diagnostics.to_string());
        }
    };
    for root in config.sites.iter().filter_map(|site| site.root.as_deref()) {
        for (folder, link) in galley_files::links_out_of(root, &[]) {
            let (link, folder) = (link.display(), folder.display());
            show::talk_lines(&format!(
                "\nthe link `{link}` leads out of `root`: add `link_targets = [\"{folder}\"]` to the site, if visitors need the files there"
            ));
        }
    }
}
