//! Files below the root: resolves a path, and builds the response.
//!
//! Small files are sent from memory (`folder`), large ones are compressed while they are sent (`coded_file`). Resolving and
//! opening may block on the disk, so both run on the runtime's helper threads; short files are read there as well.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use galley_cache::entry::Entry;
use galley_cache::fill::FillReader;
use galley_files as files;
use galley_policy::cgi::Script;
use galley_policy::compress::live;
use galley_policy::outcome::{Outcome, RefusedWhy};
use galley_policy::request_info::{Method, RequestInfo};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use tokio::task::spawn_blocking;

use super::exchange::Exchange;
use super::folder::{self, SiteFiles, WantedFile};
use super::response::{Response, ResponseBody};
use super::{coded_file, page, parts};
use crate::fault::Fault;
use galley_upstream::body::read_small;

/// The result of resolving a path below the root.
pub enum FileMatch {
    /// A response without the upstream: a file, or a redirect to a directory's address with a slash.
    Response(Response),
    /// A script to run.
    Script(Script),
    /// Neither file nor script.
    Missing,
}

enum FileProbe {
    File(files::FileResponse, Arc<std::fs::File>, Option<Bytes>),
    /// The fields for another coding, and the body if there is one.
    Coded(files::FileResponse, Option<FillReader>),
    Kept(Arc<Entry>),
    Other(files::Resolved),
}

/// Resolves a path below the site's root: in memory if a small file is there, otherwise on a helper thread.
pub async fn find(exchange: &Exchange<'_>) -> Result<FileMatch, Fault> {
    if exchange
        .site
        .sent_files
        .closes(exchange.info.decoded_path())
    {
        return Err(Fault::new(RefusedWhy::NotFound, "a path of `internal`"));
    }
    let Some(folder) = exchange.site.folder.clone() else {
        return Ok(FileMatch::Missing);
    };
    let runs_program = exchange.site.names_program(&exchange.info);
    if let Some(entry) =
        folder.file_in_memory(&exchange.info, runs_program, folder.now(), &mut Vec::new())
    {
        return Ok(FileMatch::Response(from_kept(exchange, &entry)));
    }
    if let Some(script) = folder.script(&exchange.info, runs_program) {
        return Ok(FileMatch::Script(script));
    }
    let info = exchange.info.clone();
    let looked = spawn_blocking(
        move || match folder.look(&WantedFile::of(&info, runs_program)) {
            folder::FileLookup::Kept(entry) => Ok(FileProbe::Kept(entry)),
            folder::FileLookup::File(asset) => read(&folder, asset, &info),
            folder::FileLookup::Other(other) => Ok(FileProbe::Other(other)),
        },
    )
    .await
    .map_err(|e| Fault::new(RefusedWhy::Internal, e.to_string()))?
    .map_err(|e| Fault::new(RefusedWhy::Internal, format!("cannot read a file: {e}")))?;
    match looked {
        FileProbe::Kept(entry) => Ok(FileMatch::Response(from_kept(exchange, &entry))),
        FileProbe::File(response, file, small) => {
            let length = response.length;
            let body = |parts| match small {
                Some(bytes) => ResponseBody::Bytes(bytes),
                None => ResponseBody::File {
                    file,
                    parts,
                    length,
                },
            };
            Ok(FileMatch::Response(from_file(exchange, response, body)))
        }
        FileProbe::Coded(response, body) => {
            Ok(FileMatch::Response(from_coded(exchange, response, body)))
        }
        FileProbe::Other(files::Resolved::Script(script)) => Ok(FileMatch::Script(script)),
        FileProbe::Other(files::Resolved::Redirect(path)) => {
            redirect(exchange, &path).map(FileMatch::Response)
        }
        FileProbe::Other(files::Resolved::Missing | files::Resolved::File(_)) => {
            Ok(FileMatch::Missing)
        }
        FileProbe::Other(files::Resolved::Failed(error)) => Err(Fault::new(
            RefusedWhy::Internal,
            format!("cannot look up the path below the root: {error}"),
        )),
        FileProbe::Other(files::Resolved::Denied) => {
            Err(Fault::new(RefusedWhy::Denied, "denied below the root"))
        }
    }
}

/// The response for a file that is not in memory. A short file that is sent completely is read at once.
fn read(folder: &SiteFiles, asset: files::Asset, info: &RequestInfo) -> io::Result<FileProbe> {
    let best = asset.best(info.codings(), info.images());
    let fields = folder.fields(&asset, best);
    if let Some(coding) = folder.live_coding(&asset, &fields, info) {
        let fields = live::passed_fields(&fields, coding);
        let response = files::respond(&fields, best.length, info);
        if response.parts.is_empty() {
            return Ok(FileProbe::Coded(response, None));
        }
        let compressing = folder.compressing();
        let body = coded_file::begin(compressing, &best.file, best.length, coding, &fields);
        if body.is_some() {
            return Ok(FileProbe::Coded(response, body));
        }
    }
    let response = files::respond(&fields, best.length, info);
    let files::FileForm {
        mut file, length, ..
    } = asset.into_best(info.codings(), info.images());
    let whole = matches!(response.parts.as_slice(), [files::BodyPiece::Span { start: 0, end }] if *end == length);
    let budget = folder.compressing().budget();
    let small = whole.then(|| read_small(&mut file, length, SMALL, budget));
    let small = small.transpose()?.flatten();
    Ok(FileProbe::File(response, Arc::new(file), small))
}

/// The response for a file in memory. Ranges refer to the file on the disk (see `page::form`).
fn from_kept(exchange: &Exchange<'_>, entry: &Entry) -> Response {
    let coded = page::form(&exchange.info, entry);
    let coded = coded.and_then(|at| entry.coded().get(at));
    let of_coded = coded.map(|coded| (coded.fields(), coded.body.bytes().clone()));
    // Files are neither packed nor stored in parts.
    let plain = || {
        (
            entry.fields.clone(),
            entry.body().cloned().unwrap_or_default(),
        )
    };
    let (fields, bytes) = of_coded.unwrap_or_else(plain);
    let response = files::respond(&fields, bytes.len() as u64, &exchange.info);
    // All ranges are within the file: they were computed for this length.
    let body = |parts: Vec<files::BodyPiece>| {
        ResponseBody::Pieces(parts::cut(&bytes, parts).unwrap_or_default())
    };
    from_file(exchange, response, body)
}

/// The response for a file that is compressed while it is sent, so that its length is unknown.
fn from_coded(
    exchange: &Exchange<'_>,
    response: files::FileResponse,
    body: Option<FillReader>,
) -> Response {
    match body {
        Some(reader) => from_file(exchange, response, |_| ResponseBody::Fill(reader, None)),
        None if response.status == StatusCode::OK => {
            let body = ResponseBody::Unsent(None);
            Response::new(200, response.fields, body, Outcome::File)
        }
        None => from_file(exchange, response, |_| ResponseBody::Bytes(Bytes::new())),
    }
}

fn from_file(
    exchange: &Exchange<'_>,
    response: files::FileResponse,
    body: impl FnOnce(Vec<files::BodyPiece>) -> ResponseBody,
) -> Response {
    let is_head = exchange.info.method() == Method::Head;
    let body = match response.status.as_u16() {
        304 => ResponseBody::None,
        _ if is_head => ResponseBody::Unsent(Some(response.length)),
        _ => body(response.parts),
    };
    Response::new(
        response.status.as_u16(),
        response.fields,
        body,
        Outcome::File,
    )
}

/// A redirect to the directory's address. The location is relative, so it names no host that the client could have forged.
fn redirect(exchange: &Exchange<'_>, path: &[u8]) -> Result<Response, Fault> {
    let mut location = percent_encoding::percent_encode(path, PATH)
        .to_string()
        .into_bytes();
    // `//host/` would be another host.
    while location.starts_with(b"//") {
        location.remove(0);
    }
    if let Some(query) = exchange.info.raw_query() {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    let note = "the path cannot be used in a redirect";
    let location =
        HeaderValue::from_bytes(&location).map_err(|_| Fault::new(RefusedWhy::BadRequest, note))?;
    let mut fields = HeaderMap::new();
    fields.insert(header::LOCATION, location);
    let body = ResponseBody::Bytes(Bytes::new());
    Ok(Response::new(301, fields, body, Outcome::Redirect))
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

/// Maximum size of a file that the helper thread reads at once after it opened the file.
const SMALL: usize = 128 * 1024;
