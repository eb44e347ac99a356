//! Reads the parts of a server's configuration that visitors may notice.

use std::path::{Path, PathBuf};

use crate::imported::ServerKind;
use crate::report::Report;
use crate::served::statement::ServedConfiguration;
use crate::served::{apache, nginx, words};
use crate::source::Source;
use crate::tree::{self, Grammar};

/// The parts of the configurations in `mains` that visitors may notice. `mains`: as for [`crate::import`].
pub fn served(source: &dyn Source, mains: &[(ServerKind, PathBuf)]) -> ServedConfiguration {
    let mut found = ServedConfiguration::default();
    for (kind, main) in mains {
        of_one(source, *kind, main, &mut found);
    }
    found
}

fn of_one(source: &dyn Source, kind: ServerKind, main: &Path, found: &mut ServedConfiguration) {
    let mut report = Report::default();
    match kind {
        ServerKind::Nginx => nginx::read(
            &tree::read(source, main, Grammar::Nginx, &mut report),
            main,
            found,
        ),
        ServerKind::Apache => apache::read(source, main, found),
        ServerKind::Varnish => {
            words::read_vcl(&tree::read(source, main, Grammar::Vcl, &mut report), found);
        }
        ServerKind::Caddy => words::read_caddy(
            &tree::read(source, main, Grammar::Caddy, &mut report),
            found,
        ),
    }
}
