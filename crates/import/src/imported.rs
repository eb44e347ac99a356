//! The entry point of an import, and its result.

use std::path::{Path, PathBuf};

use crate::draft::Draft;
use crate::report::{ImportedStatement, Report, StatementCounts};
use crate::source::Source;
use crate::{apache, bounds, caddy, evidence, nginx, vcl, write};

/// The kind of server that a configuration belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// nginx: the main file, or a file of `sites-enabled`.
    Nginx,
    /// Varnish: a VCL file.
    Varnish,
    /// Apache: the main file, a file of `sites-enabled`, or a `.htaccess`.
    Apache,
    /// Caddy: a Caddyfile.
    Caddy,
}

/// The result of an import.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The text of the new configuration file.
    pub configuration: String,
    /// Every statement that was read, in the order of reading.
    pub statements: Vec<ImportedStatement>,
}

impl Imported {
    /// The number of statements by result.
    pub fn shares(&self) -> StatementCounts {
        StatementCounts::of(&self.statements)
    }

    /// The statements that close something that the new configuration leaves open: the owner has to decide about them.
    pub fn open(&self) -> impl Iterator<Item = &ImportedStatement> {
        self.statements.iter().filter(|one| one.is_open)
    }
}

/// Converts the configurations in `mains`, each with the kind of its server. Sites that are in several of them are joined, and
/// earlier ones take precedence: name the server that visitors connect to before the servers behind it.
pub fn import(source: &dyn Source, mains: &[(ServerKind, PathBuf)]) -> Imported {
    let mut report = Report::default();
    let mut names = Vec::new();
    let mut draft = Draft::default();
    for (kind, main) in mains {
        let one = convert(*kind, source, main, &mut report);
        draft.join(one);
        names.push(main.display().to_string());
    }
    bounds::clamp(&mut draft, &report);
    evidence::prune(&mut draft);
    evidence::check(&draft);
    let head = format!(
        "Converted from {}.\nThe comment behind an option names the line that it comes from. Check it: galley check --config FILE",
        names.join(", ")
    );
    Imported {
        configuration: write::write(&draft, &head),
        statements: report.into_statements(),
    }
}

fn convert(kind: ServerKind, source: &dyn Source, main: &Path, report: &mut Report) -> Draft {
    match kind {
        ServerKind::Nginx => nginx::convert(source, main, report),
        ServerKind::Varnish => vcl::convert(source, main, report),
        ServerKind::Apache => apache::convert(source, main, report),
        ServerKind::Caddy => caddy::convert(source, main, report),
    }
}
