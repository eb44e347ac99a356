//! Files: which one a path means, and the answer it makes.
//!
//! Looking and opening may block on the disk, so it runs on the runtime's helper threads; small files are read there as well.

use std::sync::Arc;

use bytes::Bytes;
use galley_files as files;
use galley_rules::cgi::Script;
use galley_rules::facts::Facts;
use galley_rules::outcome::{Outcome, RefusedWhy};
use http::header::{self, HeaderMap, HeaderValue};
use tokio::task::spawn_blocking;

use super::answer::{Answer, Body};
use super::exchange::Exchange;
use super::site::Upstream;
use crate::body::read_small;
use crate::fault::Fault;

/// What a path means below the root.
pub enum Found {
    /// Answered without the upstream: a file, a redirect to a directory's slash.
    Answer(Answer),
    /// A script to run.
    Script(Script),
    /// Nothing here.
    Missing,
}

enum Looked {
    File(files::Answer, Arc<std::fs::File>, Option<Bytes>),
    Other(files::Found),
}

/// Looks below the site's root.
pub async fn find(exchange: &Exchange<'_>) -> Result<Found, Fault> {
    let Some(root) = exchange.site.root.clone() else {
        return Ok(Found::Missing);
    };
    let facts = exchange.facts.clone();
    let runs_program = exchange.names_program();
    let looked = spawn_blocking(move || {
        match below(&root, &facts, runs_program) {
            files::Found::File(asset) => {
                let answer = files::answer(&asset, &facts);
                let mut file = asset.file;
                let whole = matches!(answer.parts.as_slice(), [files::Part::Span { start: 0, end }] if *end == asset.length);
                let small = whole.then(|| read_small(&mut file, asset.length, SMALL)).transpose();
                small.map(|bytes| Looked::File(answer, Arc::new(file), bytes.flatten()))
            }
            other => Ok(Looked::Other(other)),
        }
    })
    .await
    .map_err(|e| Fault::new(RefusedWhy::Internal, e.to_string()))?
    .map_err(|e| Fault::new(RefusedWhy::Internal, format!("a file could not be read: {e}")))?;
    match looked {
        Looked::File(answer, file, small) => {
            Ok(Found::Answer(from_file(exchange, answer, file, small)))
        }
        Looked::Other(files::Found::Script(script)) => Ok(Found::Script(script)),
        Looked::Other(files::Found::Redirect(path)) => redirect(exchange, &path).map(Found::Answer),
        Looked::Other(files::Found::Missing | files::Found::File(_)) => Ok(Found::Missing),
        Looked::Other(files::Found::Denied) => {
            Err(Fault::new(RefusedWhy::Denied, "denied below the root"))
        }
    }
}

/// What the path means below a root; `runs_program`: see [`Exchange::names_program`]. Blocks on the disk.
pub fn below(root: &files::Root, facts: &Facts, runs_program: bool) -> files::Found {
    let found = root.resolve(facts.decoded_path(), facts.codings());
    if runs_program {
        program(root, facts.decoded_path(), found)
    } else {
        found
    }
}

/// Where a rule names a FastCGI server of its own, a file that is no page's part is a program of that server: its source is
/// never sent. Stylesheets and images beside it are sent as everywhere.
fn program(root: &files::Root, path: &[u8], found: files::Found) -> files::Found {
    match found {
        files::Found::File(asset) if asset.has_known_type() => files::Found::File(asset),
        files::Found::File(_) | files::Found::Missing => root.program(path),
        // The front controller stands in for what is not there; a program with a PATH_INFO is.
        files::Found::Script(script) if !path.starts_with(&script.name) => {
            match root.program(path) {
                files::Found::Missing => files::Found::Script(script),
                found => found,
            }
        }
        found => found,
    }
}

fn from_file(
    exchange: &Exchange<'_>,
    answer: files::Answer,
    file: Arc<std::fs::File>,
    small: Option<Bytes>,
) -> Answer {
    use galley_rules::facts::Method;
    let head = exchange.facts.method() == Method::Head;
    let body = match (answer.status.as_u16(), small) {
        (304, _) => Body::None,
        _ if head => Body::Unsent(Some(answer.length)),
        (_, Some(bytes)) => Body::Bytes(bytes),
        (_, None) => Body::File {
            file,
            parts: answer.parts,
            length: answer.length,
        },
    };
    Answer::new(answer.status.as_u16(), answer.fields, body, Outcome::File)
}

/// To the directory's own address, on the client's own host: the path is relative, so no host is made up.
fn redirect(exchange: &Exchange<'_>, path: &[u8]) -> Result<Answer, Fault> {
    let mut location = percent_encoding::percent_encode(path, PATH)
        .to_string()
        .into_bytes();
    // `//host/` would be another host.
    while location.starts_with(b"//") {
        location.remove(0);
    }
    if let Some(query) = exchange.facts.raw_query() {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    let location = HeaderValue::from_bytes(&location).map_err(|_| {
        Fault::new(
            RefusedWhy::BadRequest,
            "a path that cannot be redirected to",
        )
    })?;
    let mut fields = HeaderMap::new();
    fields.insert(header::LOCATION, location);
    Ok(Answer::new(
        301,
        fields,
        Body::Bytes(Bytes::new()),
        Outcome::Redirect,
    ))
}

impl Exchange<'_> {
    /// Who composes this request: the rule's upstream or the site's.
    pub fn upstream(&self) -> &Upstream {
        let further = self
            .facts
            .rule()
            .and_then(|rule| self.site.core.rules.rules.get(rule))
            .and_then(|rule| rule.upstream)
            .and_then(|index| self.site.further.get(index));
        further.unwrap_or(&self.site.upstream)
    }

    /// Whether a rule sends the request to a FastCGI program of its own, so that any file may be the script.
    pub fn names_program(&self) -> bool {
        let by_rule = !std::ptr::eq(self.upstream(), &raw const self.site.upstream);
        by_rule && matches!(self.upstream(), Upstream::Php(_))
    }
}

/// Characters of a path that are escaped in `Location`.
const PATH: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Files up to this are read at once on the helper thread that opened them.
const SMALL: usize = 128 * 1024;
