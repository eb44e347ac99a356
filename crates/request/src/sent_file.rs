//! A file that the upstream's response names, sent in place of the response as nginx does for `X-Accel-Redirect`.
//!
//! The status, ranges and conditions are those of the file; the fields that nginx keeps are those of the response. Nothing is
//! stored, neither the response nor the file. A path that is no file is an error: Galley has no locations to which a URI could be
//! redirected internally.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_cache::fill::{self, FillError, FillHead, FillSharing, FillWriter};
use galley_files::{self as files, Asset, BodyPiece, FileResponse, SentFile};
use galley_policy::outcome::{Outcome, RefusedWhy};
use galley_policy::request_info::Method;
use galley_policy::send_file::{self, SendFile};
use http::header::{self, HeaderMap, HeaderValue};
use http::{HeaderName, StatusCode};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use super::exchange::Exchange;
use super::folder::SiteFiles;
use super::response::{Response, ResponseBody};
use super::site::Services;
use crate::fault::Fault;

/// The name of a file, with the fields of the upstream's response.
pub(super) struct NamedFile<'n> {
    pub(super) fields: &'n HeaderMap,
    pub(super) file: &'n SendFile,
}

impl NamedFile<'_> {
    /// The response with the file, or the reason why it cannot be sent.
    pub(super) async fn respond(
        &self,
        services: &Services,
        exchange: &Exchange<'_>,
        outcome: Outcome,
    ) -> Result<Response, Fault> {
        let refused = match self.find(exchange).await? {
            SentFile::File(asset) => return self.with_asset(exchange, asset, outcome),
            refused => self.refusal(&refused),
        };
        if !refused.is_upstream() {
            let (name, id) = (&exchange.site.core.name, &exchange.request_id);
            services.upstream_warnings.warn(name, id, &refused.note);
        }
        Err(refused)
    }

    async fn find(&self, exchange: &Exchange<'_>) -> Result<SentFile, Fault> {
        let site = &exchange.site;
        let (folder, sent_files) = (site.folder.clone(), Arc::clone(&site.sent_files));
        let target = self.file.target.clone();
        spawn_blocking(move || sent_files.find(folder.as_deref().map(SiteFiles::root), &target))
            .await
            .map_err(|error| Fault::new(RefusedWhy::Internal, error.to_string()))
    }

    fn refusal(&self, found: &SentFile) -> Fault {
        let path = self.file.target.path().escape_ascii();
        let (why, reason) = match found {
            SentFile::Missing => (RefusedWhy::NotFound, MISSING.to_owned()),
            SentFile::Forbidden => (RefusedWhy::BadUpstream, FORBIDDEN.to_owned()),
            SentFile::Outside => (RefusedWhy::BadUpstream, OUTSIDE.to_owned()),
            SentFile::Failed(error) => (RefusedWhy::Internal, error.to_string()),
            SentFile::File(_) => (RefusedWhy::Internal, String::new()),
        };
        let note = format!(
            "the response of the upstream names the file `{path}`, which cannot be sent: {reason}"
        );
        Fault::new(why, note)
    }

    fn with_asset(
        &self,
        exchange: &Exchange<'_>,
        asset: Asset,
        outcome: Outcome,
    ) -> Result<Response, Fault> {
        let whole = self.whole_fields(&asset);
        // As nginx does, a file that answers a POST is one of a GET.
        let is_read = matches!(exchange.info.method(), Method::Get | Method::Head);
        let get = (!is_read).then(|| exchange.info_of_get()).flatten();
        let info = get.as_ref().unwrap_or(&exchange.info);
        let mut response = files::respond(&whole, asset.plain.length, info);
        let has_body = matches!(
            response.status,
            StatusCode::OK | StatusCode::PARTIAL_CONTENT
        );
        // The address says nothing about the lifetime of this file.
        for name in LISTS {
            response.fields.remove(name);
        }
        for (name, value) in &send_file::kept_fields(self.fields, has_body) {
            keep(&mut response.fields, name, value);
        }
        let (status, fields) = (
            response.status.as_u16(),
            std::mem::take(&mut response.fields),
        );
        let body = self.body(exchange.info.method(), asset.plain.file, response)?;
        Ok(Response::new(status, fields, body, outcome))
    }

    /// The fields of a 200 with the whole file, with the type that the upstream gives it.
    fn whole_fields(&self, asset: &Asset) -> HeaderMap {
        let mut whole = asset.fields(&asset.plain);
        if let Some(content_type) = self.fields.get(header::CONTENT_TYPE) {
            whole.insert(header::CONTENT_TYPE, content_type.clone());
        }
        add_charset(&mut whole, self.file);
        whole
    }

    fn body(
        &self,
        method: Method,
        file: std::fs::File,
        found: FileResponse,
    ) -> Result<ResponseBody, Fault> {
        let FileResponse { parts, length, .. } = found;
        if found.status == StatusCode::NOT_MODIFIED {
            return Ok(ResponseBody::None);
        }
        if method == Method::Head {
            return Ok(ResponseBody::Unsent(Some(length)));
        }
        if parts.is_empty() {
            return Ok(ResponseBody::Bytes(Bytes::new()));
        }
        let file = Arc::new(file);
        match self.file.bytes_per_s {
            Some(rate) => PacedFile { file, parts, rate }.begin(length),
            None => Ok(ResponseBody::File {
                file,
                parts,
                length,
            }),
        }
    }
}

/// The fields of which each line counts: a `no-store` in one must not be lost to a `max-age` in another.
const LISTS: [HeaderName; 3] = [header::SET_COOKIE, header::CACHE_CONTROL, header::EXPIRES];

/// Adds a field of the upstream's response. The type is already that of the file, or of several ranges.
fn keep(fields: &mut HeaderMap, name: &HeaderName, value: &HeaderValue) {
    if LISTS.contains(name) {
        fields.append(name.clone(), value.clone());
    } else if *name != header::CONTENT_TYPE {
        fields.insert(name.clone(), value.clone());
    }
}

/// Adds `X-Accel-Charset` to the type of a text that has no charset.
fn add_charset(fields: &mut HeaderMap, file: &SendFile) {
    let (Some(charset), Some(content_type)) = (&file.charset, fields.get(header::CONTENT_TYPE))
    else {
        return;
    };
    if let Ok(text) = content_type.to_str()
        && text.starts_with("text/")
        && !text.contains("charset=")
        && let Ok(value) = HeaderValue::try_from(format!("{text}; charset={charset}"))
    {
        fields.insert(header::CONTENT_TYPE, value);
    }
}

/// A file that is read and sent with at most `rate` bytes per second (`X-Accel-Limit-Rate`).
struct PacedFile {
    file: Arc<std::fs::File>,
    parts: Vec<BodyPiece>,
    rate: u64,
}

impl PacedFile {
    fn begin(self, length: u64) -> Result<ResponseBody, Fault> {
        let (mut writer, fill) = fill::fill(STEP, None);
        writer.head(FillHead {
            status: StatusCode::OK,
            fields: HeaderMap::new(),
            share: FillSharing::Private,
            length: Some(length),
        });
        let internal = || Fault::new(RefusedWhy::Internal, "no runtime reads the file");
        let reader = fill.reader().ok_or_else(internal)?;
        let runtime = Handle::try_current().map_err(|_| internal())?;
        runtime.spawn(async move {
            match self.send(&mut writer).await {
                Ok(()) => drop(writer.finish()),
                Err(failure) => writer.fail(failure),
            }
        });
        Ok(ResponseBody::Fill(reader, Some(length)))
    }

    /// Runs until the end of the file, or until the client has disconnected.
    async fn send(self, writer: &mut FillWriter) -> Result<(), FillError> {
        let mut next = Instant::now();
        for part in &self.parts {
            match part {
                BodyPiece::Bytes(bytes) => put(writer, bytes.clone().into())?,
                BodyPiece::Span { start, end } => {
                    next = self.send_span(writer, *start..*end, next).await?;
                }
            }
        }
        Ok(())
    }

    /// Sends bytes of the file, not before `next`. Returns when the next ones may be sent.
    async fn send_span(
        &self,
        writer: &mut FillWriter,
        mut span: Range<u64>,
        mut next: Instant,
    ) -> Result<Instant, FillError> {
        let step = (self.rate / STEPS_PER_S).clamp(1, STEP as u64);
        while !span.is_empty() {
            writer.below(1).await.map_err(|_| FillError::Aborted)?;
            sleep_until(next).await;
            let count = step.min(span.end - span.start);
            let (file, at) = (Arc::clone(&self.file), span.start);
            // If the file became shorter, or the disk failed, the client must not take the part for the whole.
            let read = spawn_blocking(move || read_at(&file, at, count)).await;
            put(
                writer,
                read.ok().and_then(Result::ok).ok_or(FillError::Closed)?,
            )?;
            span.start += count;
            next = next.max(Instant::now()) + Duration::from_micros(count * 1_000_000 / self.rate);
        }
        Ok(next)
    }
}

fn put(writer: &mut FillWriter, piece: Bytes) -> Result<(), FillError> {
    writer.put(piece).map_err(|_| FillError::Aborted)
}

fn read_at(file: &std::fs::File, at: u64, count: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(count).unwrap_or(STEP)];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes.into())
}

const MISSING: &str = "there is no such file below `root` or in a folder of `internal`; Galley sends files only, and redirects to no other address";

const FORBIDDEN: &str = "sources, hidden files, and paths with `..` or control characters are never sent, and Galley must be permitted to read the file";

const OUTSIDE: &str =
    "it is outside `root` and the folders of `internal`: name its folder in the site's `internal`";

/// The largest piece of a paced file, in bytes.
const STEP: usize = 64 * 1024;

/// The number of pieces per second, as far as [`STEP`] permits.
const STEPS_PER_S: u64 = 10;
