//! The positions of the options of a checked configuration, for problems that only this machine shows: a port in use, a user
//! that does not exist. Such problems are reported like all errors, with file, line and value.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::diagnostic::{Diagnostics, SourceSpan, Warning, shown};
use crate::listen::Listen;
use crate::tree::{Document, SectionTable};

/// The files from which a configuration was read.
#[derive(Clone)]
pub struct ConfigFiles(Arc<Document>);

/// The path of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionPath {
    /// An option of `[server]`.
    Server(&'static str),
    /// An option of `[admin]`.
    Admin(&'static str),
    /// An option of `[cache]`.
    Cache(&'static str),
    /// An option of `[log]`.
    Log(&'static str),
    /// An option of `[acme]`.
    Acme(&'static str),
    /// An option of `[cluster]`.
    Cluster(&'static str),
    /// An option of the site with this index.
    Site(usize, &'static str),
    /// An option of `[site.log]` of the site with this index.
    SiteLog(usize, &'static str),
    /// The list that contains a listener of a site.
    Listener {
        /// The index of the first site with this listener.
        site: usize,
        /// `listen`, `listen_tls` or `listen_quic`.
        list: &'static str,
        /// The listener.
        listen: Listen,
    },
}

/// A problem on this machine, its position, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFinding {
    /// The option with the problem.
    pub at: OptionPath,
    /// The value of the option.
    pub value: String,
    /// Why it cannot be used; continues after the value.
    pub why: String,
    /// The remedy.
    pub help: String,
}

impl ConfigFiles {
    pub(crate) fn new(document: Document) -> Self {
        Self(Arc::new(document))
    }

    pub(crate) fn document(&self) -> &Document {
        &self.0
    }

    /// `file:line`.
    pub(crate) fn spot(&self, position: &SourceSpan) -> String {
        self.0.diagnostics.spot(position)
    }

    /// The text of the file at a position.
    pub(crate) fn text(&self, position: &SourceSpan) -> String {
        self.0.diagnostics.text_at(position).to_owned()
    }

    /// The findings as diagnostics, in the order of files and lines.
    pub fn diagnostics(&self, findings: &[MachineFinding]) -> Diagnostics {
        let mut diagnostics = self.0.diagnostics.with_the_same_sources();
        for finding in findings {
            let (option, position) = self.option(&finding.at);
            let message = finding.message(&option);
            diagnostics.add(&position, option, message, finding.help.as_str());
        }
        diagnostics.sorted()
    }

    /// The findings as warnings.
    pub fn warnings(&self, findings: &[MachineFinding]) -> Vec<Warning> {
        let mut diagnostics = self.0.diagnostics.with_the_same_sources();
        for finding in findings {
            let (option, position) = self.option(&finding.at);
            let message = finding.message(&option);
            diagnostics.warn(&position, option, message, finding.help.as_str());
        }
        diagnostics.take_warnings()
    }

    /// The option with its section, and its position, otherwise that of its section.
    fn option(&self, at: &OptionPath) -> (String, SourceSpan) {
        let document = &*self.0;
        let of_site = |index: usize| document.sites.get(index);
        let (section, name): (Option<&SectionTable>, &str) = match at {
            OptionPath::Server(name) => (Some(&document.server), name),
            OptionPath::Admin(name) => (Some(&document.admin), name),
            OptionPath::Cache(name) => (Some(&document.cache), name),
            OptionPath::Log(name) => (Some(&document.log), name),
            OptionPath::Acme(name) => (Some(&document.acme), name),
            OptionPath::Cluster(name) => (Some(&document.cluster), name),
            OptionPath::Site(index, name) => (of_site(*index).map(|site| &site.options), name),
            OptionPath::SiteLog(index, name) => (of_site(*index).map(|site| &site.log), name),
            OptionPath::Listener { site, list, listen } => {
                return self.listener(*site, list, listen);
            }
        };
        section.map_or_else(
            || (name.to_owned(), document.whole.clone()),
            |section| (section.path(name), section.position(name).clone()),
        )
    }

    /// The list of the site, otherwise that of the server, and the position of the listener in it.
    fn listener(&self, site: usize, list: &str, listen: &Listen) -> (String, SourceSpan) {
        let document = &*self.0;
        let options = document.sites.get(site).map(|site| &site.options);
        let section = options
            .filter(|options| options.has(list))
            .unwrap_or(&document.server);
        let members: Vec<(SourceSpan, Listen)> = section.get(list).unwrap_or_default();
        let member = members.into_iter().find(|(_, one)| one == listen);
        let position =
            member.map_or_else(|| section.position(list).clone(), |(position, _)| position);
        (section.path(list), position)
    }
}

impl MachineFinding {
    /// A finding about an option whose value is a path.
    pub fn of_path(
        at: OptionPath,
        path: &Path,
        why: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self {
            at,
            value: path.display().to_string(),
            why: why.into(),
            help: help.into(),
        }
    }

    fn message(&self, option: &str) -> String {
        format!("`{option}` is {}, {}", shown(&self.value), self.why)
    }
}

impl fmt::Debug for ConfigFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Origin")
    }
}
