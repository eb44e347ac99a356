//! The import as a whole.

use std::path::{Path, PathBuf};

use crate::ledger::{ImportedStatement, Ledger, Shares};
use crate::source::Source;
use crate::{apache, caddy, nginx, vcl, write};

/// Whose files they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// nginx: the main file, or one of `sites-enabled`.
    Nginx,
    /// Varnish: a VCL file.
    Varnish,
    /// Apache: the main file, one of `sites-enabled`, or a `.htaccess`.
    Apache,
    /// Caddy: a Caddyfile.
    Caddy,
}

/// What became of a configuration.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The text of the new file.
    pub configuration: String,
    /// Every statement that was read, in the order of reading.
    pub statements: Vec<ImportedStatement>,
}

impl Imported {
    /// How many statements became what.
    pub fn shares(&self) -> Shares {
        Shares::of(&self.statements)
    }
}

/// Converts the configurations in `mains`, each with the kind of its server. Sites that several of them have are joined, the first one
/// first: name the server that answers visitors before those behind it.
pub fn import(source: &dyn Source, mains: &[(ServerKind, PathBuf)]) -> Imported {
    let mut ledger = Ledger::default();
    let mut names = Vec::new();
    let mut draft = crate::draft::Draft::default();
    for (kind, main) in mains {
        let one = convert(*kind, source, main, &mut ledger);
        draft.join(one);
        names.push(main.display().to_string());
    }
    let head = format!(
        "Converted from {}.\nThe comment behind an option names the line that it comes from. Check it: galley check --config FILE",
        names.join(", ")
    );
    Imported {
        configuration: write::write(&draft, &head),
        statements: ledger.into_statements(),
    }
}

fn convert(
    kind: ServerKind,
    source: &dyn Source,
    main: &Path,
    ledger: &mut Ledger,
) -> crate::draft::Draft {
    match kind {
        ServerKind::Nginx => nginx::convert(source, main, ledger),
        ServerKind::Varnish => vcl::convert(source, main, ledger),
        ServerKind::Apache => apache::convert(source, main, ledger),
        ServerKind::Caddy => caddy::convert(source, main, ledger),
    }
}
