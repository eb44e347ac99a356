//! A response before it is sent: a status, fields, a body, and the outcome that explains it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_cache::disk::BodyPieces;
use galley_cache::entry::Entry;
use galley_cache::fill::FillReader;
use galley_policy::headers::{Compiled, Recipient};
use galley_policy::outcome::{Outcome, RefusedWhy};
use galley_policy::private;
use galley_policy::redirect::Redirection;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::site::Site;
use crate::fault::{self, Fault};

/// A response, ready to be written by any protocol.
pub struct Response {
    /// The final status.
    pub status: u16,
    /// The fields, without framing and connection fields.
    pub fields: ResponseFields,
    /// Additional fields, such as `Age` and `Cache-Status`.
    pub extra: Vec<(HeaderName, HeaderValue)>,
    /// The body.
    pub body: ResponseBody,
    /// The outcome, for the log and `Cache-Status`.
    pub outcome: Outcome,
    /// The time until the upstream's head, if a request was sent to the upstream.
    pub upstream_time: Option<Duration>,
}

/// The fields of a response.
pub enum ResponseFields {
    /// Fields that belong to this response.
    Own(HeaderMap),
    /// The fields of a stored entry, shared.
    Stored(Arc<Entry>),
}

impl ResponseFields {
    /// The fields, owned or shared.
    pub fn map(&self) -> &HeaderMap {
        match self {
            Self::Own(map) => map,
            Self::Stored(entry) => &entry.fields,
        }
    }
}

/// The body of a response.
pub enum ResponseBody {
    /// No body and no length: 204, 304.
    None,
    /// A body that is not sent, with its length: HEAD.
    Unsent(Option<u64>),
    /// In memory.
    Bytes(Bytes),
    /// In memory, in pieces that share stored bytes.
    Pieces(Vec<Bytes>),
    /// Being received from the upstream, with its length if known.
    Fill(FillReader, Option<u64>),
    /// Parts of a stored body on the disk.
    Stored {
        /// The body.
        pieces: Arc<BodyPieces>,
        /// The parts to send, in order.
        parts: Vec<galley_files::BodyPiece>,
        /// The sum of the parts.
        length: u64,
    },
    /// Parts of a file.
    File {
        /// The file.
        file: Arc<std::fs::File>,
        /// The parts to send, in order.
        parts: Vec<galley_files::BodyPiece>,
        /// The sum of the parts.
        length: u64,
    },
}

impl Response {
    /// A response with its own fields.
    pub fn new(status: u16, fields: HeaderMap, body: ResponseBody, outcome: Outcome) -> Self {
        Self {
            status,
            fields: ResponseFields::Own(fields),
            extra: Vec::new(),
            body,
            outcome,
            upstream_time: None,
        }
        .explained(None)
    }

    /// Adds `Cache-Status`; `ttl_s` is the remaining lifetime, negative if stale.
    #[must_use]
    pub fn explained(mut self, ttl_s: Option<i64>) -> Self {
        let mut text = Vec::with_capacity(48);
        self.outcome.write_cache_status(ttl_s, &mut text);
        if let Ok(value) = HeaderValue::from_bytes(&text) {
            self.extra.retain(|(name, _)| *name != CACHE_STATUS);
            self.extra.push((CACHE_STATUS, value));
        }
        self
    }

    /// A redirect; [`galley_policy::redirect`] decides its target.
    pub fn redirect(found: &Redirection) -> Result<Self, Fault> {
        let location = HeaderValue::from_bytes(&found.location).map_err(|_| {
            let note = "the address cannot be used in a redirect";
            Fault::new(RefusedWhy::BadRequest, note)
        })?;
        let fields = HeaderMap::from_iter([(header::LOCATION, location)]);
        let body = ResponseBody::Bytes(Bytes::new());
        Ok(Self::new(found.status, fields, body, Outcome::Redirect))
    }

    /// The error page for a fault.
    pub fn fault(fault: &Fault, request_id: &str) -> Self {
        let mut response =
            Self::status_page(fault.status(), Outcome::Refused(fault.why), request_id);
        if let Some(seconds) = fault.retry_after_s {
            response
                .extra
                .push((header::RETRY_AFTER, HeaderValue::from(seconds)));
        }
        if let Some(page) = &fault.page {
            response.body = ResponseBody::Pieces(page.clone());
        }
        match fault.status() {
            405 => response.extra.push((header::ALLOW, METHODS)),
            401 => response.extra.push((header::WWW_AUTHENTICATE, BASIC)),
            _ => {}
        }
        response
    }

    /// The error page for a fault: the site's own if it has one for this status, else Galley's.
    pub fn site_fault(fault: &Fault, site: &Site, request_id: &str) -> Self {
        let mut response = Self::fault(fault, request_id);
        if let Some(page) = site.error_pages.render(fault, request_id) {
            response.body = ResponseBody::Pieces(page);
        }
        response
    }

    /// Applies the field changes of the configuration. This is the last change to a response before it is sent.
    pub fn change(&mut self, changes: &Compiled, recipient: Recipient) {
        if changes.touches(self.fields.map()) {
            self.fields = ResponseFields::Own(changes.stripped(self.fields.map()));
        }
        self.extra.retain(|(name, _)| !changes.drops(name));
        let added = changes.fields(recipient).iter().cloned();
        self.extra.splice(0..0, added);
    }

    /// Forbids other caches to store the response, whatever the configuration changes.
    pub fn keep_private(&mut self) {
        self.extra.retain(|(name, _)| !private::lets_store(name));
        self.fields = ResponseFields::Own(private::own_fields(self.fields.map()));
    }

    /// The methods of the server as a whole (RFC 9110 §9.3.7).
    pub fn methods() -> Self {
        let mut fields = HeaderMap::new();
        fields.insert(header::ALLOW, METHODS);
        Self::new(204, fields, ResponseBody::None, Outcome::File)
    }

    /// The proof of control over a name, for a certificate authority that requests it (RFC 8555 section 8.3).
    pub fn challenge(proof: Bytes) -> Self {
        let mut fields = HeaderMap::new();
        let media_type = HeaderValue::from_static("application/octet-stream");
        fields.insert(header::CONTENT_TYPE, media_type);
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Self::new(200, fields, ResponseBody::Bytes(proof), Outcome::File)
    }

    /// A small page with the text of the status and the request id.
    pub fn status_page(status: u16, outcome: Outcome, request_id: &str) -> Self {
        let reason = http::StatusCode::from_u16(status)
            .ok()
            .and_then(|s| s.canonical_reason())
            .unwrap_or("Error");
        let text = match outcome {
            // A paused upstream is unreachable, not busy.
            Outcome::Refused(RefusedWhy::UpstreamPaused) => fault::public_text(502),
            Outcome::Refused(RefusedWhy::Unseen) => fault::UNSEEN_TEXT,
            _ => fault::public_text(status),
        };
        let page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{status} {reason}</title>\
             <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\"><style>body{{font:16px/1.5 system-ui,sans-serif;\
             max-width:32em;margin:15vh auto;padding:0 1em}}small{{opacity:.7}}</style></head>\
             <body><h1>{reason}</h1><p>{text}</p><p><small>{status} · {request_id}</small></p></body></html>\n"
        );
        let mut fields = HeaderMap::new();
        fields.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        );
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Self::new(status, fields, ResponseBody::Bytes(page.into()), outcome)
    }
}

impl ResponseBody {
    /// The response to HEAD: with the length, without the body.
    #[must_use]
    pub fn unsent(self) -> Self {
        match self {
            Self::None => Self::None,
            Self::Bytes(bytes) => Self::Unsent(Some(bytes.len() as u64)),
            Self::Pieces(pieces) => Self::Unsent(Some(length_of(&pieces))),
            Self::Unsent(length) | Self::Fill(_, length) => Self::Unsent(length),
            Self::File { length, .. } | Self::Stored { length, .. } => Self::Unsent(Some(length)),
        }
    }
}

/// The length of a body in pieces.
pub fn length_of(pieces: &[Bytes]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// For `Allow`.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, OPTIONS");

/// RFC 7617.
const BASIC: HeaderValue =
    HeaderValue::from_static("Basic realm=\"restricted\", charset=\"UTF-8\"");

/// RFC 9211.
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
