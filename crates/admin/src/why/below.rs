//! How a path resolves below the site's root, for an explanation.

use std::time::Duration;

use galley_cache::entry::Entry;
use galley_files as files;
use galley_policy::cgi::Script;
use galley_policy::decide;
use galley_policy::encoding::AcceptedCodings;
use serde_json::{Value, json};

use galley_request::{Exchange, WantedFile};

/// The result of resolving the path of a request below the site's root.
pub(super) enum PathExplanation {
    /// The site has no root.
    NoRoot,
    /// A file that would be sent.
    File {
        content_type: &'static str,
        length: u64,
        /// How long ago the metadata was checked, if the file is in memory and has not changed.
        checked: Option<Duration>,
    },
    /// A script for PHP.
    Script(Script),
    /// A directory without the trailing slash.
    Redirect(Vec<u8>),
    /// The path does not exist.
    Missing,
    /// A path that is never served.
    Denied,
    /// An error of the file system.
    Failed(String),
}

impl PathExplanation {
    /// Resolves the path. Blocks on the disk.
    pub(super) fn resolve(exchange: &Exchange<'_>) -> Self {
        let (site, info) = (&exchange.site, &exchange.info);
        let Some(folder) = &site.folder else {
            return Self::NoRoot;
        };
        let runs_program = site.names_program(info);
        match folder.below(&WantedFile::of(info, runs_program)) {
            files::Resolved::File(asset) => Self::File {
                content_type: asset.type_of(asset.best(info.codings(), info.images())),
                length: asset.best(AcceptedCodings::default(), info.images()).length,
                checked: folder
                    .peek(info, runs_program)
                    .filter(|(entry, _)| is_of(entry, &asset))
                    .map(|(_, age)| age),
            },
            files::Resolved::Script(script) => Self::Script(script),
            files::Resolved::Redirect(path) => Self::Redirect(path),
            files::Resolved::Missing => Self::Missing,
            files::Resolved::Denied => Self::Denied,
            files::Resolved::Failed(error) => Self::Failed(error.to_string()),
        }
    }

    /// The kind for the decision function.
    pub(super) fn kind(&self) -> decide::PathKind {
        match self {
            Self::File { .. } => decide::PathKind::File,
            Self::Script(_) => decide::PathKind::Script,
            Self::Redirect(_) => decide::PathKind::Directory,
            Self::Missing | Self::NoRoot => decide::PathKind::Missing,
            Self::Denied => decide::PathKind::Denied,
            Self::Failed(_) => decide::PathKind::Failed,
        }
    }

    pub(super) fn value(&self) -> Value {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self {
            Self::NoRoot => json!({ "kind": "no-root" }),
            Self::File {
                content_type,
                length,
                checked,
            } => json!({
                "kind": "file",
                "content_type": content_type,
                "bytes": length,
                "in_memory": checked.is_some(),
                "looked_at_ago_ms": checked.map(|age| age.as_millis()),
            }),
            Self::Script(script) => json!({
                "kind": "script",
                "path": text(&script.filename),
                "path_info": script.path_info.as_deref().map(text),
            }),
            Self::Redirect(path) => json!({ "kind": "redirect", "path": text(path) }),
            Self::Missing => json!({ "kind": "missing" }),
            Self::Denied => json!({ "kind": "denied" }),
            Self::Failed(error) => json!({ "kind": "failed", "error": error }),
        }
    }
}

fn is_of(entry: &Entry, asset: &files::Asset) -> bool {
    let source = entry.source();
    source.is_some_and(|source| *source.stamp() == *asset.stamp())
}
