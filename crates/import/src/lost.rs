//! Reports the statements of options and rules that a draft does not have in the end.

use std::collections::{HashMap, HashSet};

use crate::directive::Directive;
use crate::draft::Draft;
use crate::source::StatementOrigin;

impl Draft {
    /// Reports the statements in [`Draft::dropped`], and those of the options in [`Draft::lost`].
    pub fn report_lost(&self, all: &[&Directive]) {
        let place = |origin: &StatementOrigin| (origin.file.clone(), origin.line);
        let mut names = HashMap::new();
        for one in &self.lost {
            names.extend(one.origins.iter().map(|origin| (place(origin), &one.name)));
        }
        let names_host = |by: &Directive| {
            let names = ["listen", "server_name", "servername", "serveralias"];
            names.contains(&by.name())
        };
        let dropped: HashSet<_> = self.dropped.iter().map(place).collect();
        for by in all.iter().filter(|by| by.entry.is_carried()) {
            if dropped.contains(&place(&by.origin)) && !names_host(by) {
                by.entry.not_carried(DROPPED);
            }
        }
        for by in all.iter().filter(|by| by.block.is_none()) {
            if let Some(name) = names.get(&place(&by.origin)) {
                by.not_carried(&format!(
                    "another server sets `{name}` otherwise, and Galley has one value for a host, or for all: choose one of both"
                ));
            }
        }
    }
}

const DROPPED: &str = "the host redirects, and its draft has no other rule: write one into the site, if a request for its paths shall not be redirected";
