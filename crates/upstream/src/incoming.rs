//! A response whose head has been received, and its body, over any upstream protocol.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use galley_cache::budget::MemoryBudget;
use galley_cache::fill::{FillError, FillSharing};
use galley_http::response::BadResponse;
use galley_policy::cache_status;
use galley_policy::decoded;
use galley_policy::fields::FieldFlaw;
use galley_policy::outcome::NotStored;
use galley_policy::send_file::{self, SendFile};
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::fastcgi_body::FastCgiBody;
use super::http1_body::HttpBody;
use super::limit::Slot;
use super::response_log::{Repair, ResponseSource};
use super::server_state::ServerPermit;
use galley_codec::decode::{BodyDecoder, CodingError as Undecodable, DecodeStep};
use galley_telemetry::trace::OpenSpan;

/// A response whose head has been received.
pub struct IncomingResponse {
    /// The final status.
    pub status: StatusCode,
    /// The end-to-end fields.
    pub fields: HeaderMap,
    /// The file to send in place of the body. The fields do not contain its name.
    pub send_file: Option<Box<SendFile>>,
    body: IncomingBody,
    expected: Option<u64>,
    received: u64,
    /// When the first bytes arrived that nobody needs.
    discarding_since: Option<Instant>,
    slot: Option<Slot>,
    permit: Option<ServerPermit>,
    /// Open until the end of the response.
    span: Option<OpenSpan>,
    decoder: Option<Box<BodyDecoder>>,
    /// `None`: Galley made the response.
    source: Option<ResponseSource>,
    /// Whether the response was invalid in a way that forbids to store it.
    is_repaired: bool,
}

/// The head of a response of an upstream.
pub(super) struct IncomingHead {
    pub(super) status: StatusCode,
    pub(super) fields: HeaderMap,
    /// The worst flaw of the fields that were dropped.
    pub(super) dropped: Option<FieldFlaw>,
    /// Whether no body follows, whatever the head says: the response to `HEAD`, or a switch to another protocol.
    pub(super) is_bare: bool,
}

pub(super) enum IncomingBody {
    FastCgi(Box<FastCgiBody>),
    Http(HttpBody),
    /// A body that is already complete, in pieces.
    Whole {
        pieces: VecDeque<Bytes>,
        ended_well: bool,
    },
}

impl IncomingResponse {
    pub(super) fn new(head: IncomingHead, body: IncomingBody, source: ResponseSource) -> Self {
        let IncomingHead {
            status,
            mut fields,
            dropped,
            is_bare,
        } = head;
        if let Some(flaw) = dropped {
            source.repaired(Repair::Field(flaw));
        }
        cache_status::remove_own(&mut fields);
        let send_file = send_file::take(&mut fields).map(Box::new);
        // A 304 may state the length of the 200 (RFC 9110 §8.6); other statuses without content have no length.
        let is_bare = is_bare || has_no_content(status);
        let expected = (!is_bare).then(|| content_length(&fields)).flatten();
        Self {
            status,
            fields,
            send_file,
            body,
            expected,
            received: 0,
            discarding_since: None,
            slot: None,
            permit: None,
            span: None,
            decoder: None,
            source: Some(source),
            // A dropped value may have been a directive that forbids to store the response.
            is_repaired: dropped > Some(FieldFlaw::Name),
        }
    }

    /// A response that is already complete, with the pieces of its body.
    pub fn whole(status: StatusCode, fields: HeaderMap, pieces: Vec<Bytes>) -> Self {
        Self {
            status,
            fields,
            send_file: None,
            expected: Some(length_of(&pieces)),
            received: 0,
            discarding_since: None,
            slot: None,
            permit: None,
            span: None,
            decoder: None,
            source: None,
            is_repaired: false,
            body: IncomingBody::Whole {
                pieces: pieces.into(),
                ended_well: true,
            },
        }
    }

    /// Replaces the body, which has been read to its end, by the pieces of another one.
    pub fn replace_body(&mut self, pieces: Vec<Bytes>) {
        self.drop_validators();
        self.fields.remove(http::header::CONTENT_LENGTH);
        self.expected = Some(length_of(&pieces));
        self.received = 0;
        self.decoder = None;
        self.body = IncomingBody::Whole {
            ended_well: self.ended_well(),
            pieces: pieces.into(),
        };
    }

    /// Removes the fields that describe the bytes of the body, because other bytes are sent.
    pub fn drop_validators(&mut self) {
        for name in BODY_FIELDS {
            self.fields.remove(name);
        }
    }

    pub(super) fn with_slot(mut self, slot: Slot) -> Self {
        self.slot = Some(slot);
        self
    }

    /// Ends a span with the response.
    pub(super) fn with_span(mut self, span: Option<OpenSpan>) -> Self {
        self.span = span;
        self
    }

    /// Holds the permit of the server until the end of the response.
    pub(super) fn with_permit(mut self, permit: ServerPermit) -> Self {
        self.permit = Some(permit);
        self
    }

    /// Whether the server is unable to respond, and another server may be: 502, 503, 504.
    pub(super) fn is_unavailable(&self) -> bool {
        matches!(self.status.as_u16(), 502..=504)
    }

    /// Removes the codings that the upstream applied without being asked to: the fields and pieces are then those of the plain
    /// body. `free`: the longest body that may be stored; up to that length any compression ratio is accepted.
    ///
    /// Errors: the reason; the response is unchanged then.
    pub fn decode(&mut self, budget: &MemoryBudget, free: u64) -> Result<(), NotStored> {
        if !self.fields.contains_key(http::header::CONTENT_ENCODING) {
            return Ok(());
        }
        let applied = decoded::applied(&self.fields).map_err(|_| NotStored::Coding)?;
        if applied.is_empty() {
            self.fields.remove(http::header::CONTENT_ENCODING);
            return Ok(());
        }
        let decoder = BodyDecoder::new(&applied, budget, free).ok_or(NotStored::Memory)?;
        self.decoder = Some(Box::new(decoder));
        decoded::undo(&mut self.fields);
        Ok(())
    }

    /// The length of the body, if the upstream announced it.
    pub fn length(&self) -> Option<u64> {
        match self.decoder {
            Some(_) => None,
            None => self.expected,
        }
    }

    /// Who may read the response, if it is not stored.
    pub fn share(&self) -> FillSharing {
        let file = self.send_file.clone();
        file.map_or(FillSharing::Private, FillSharing::File)
    }

    /// Whether all bytes of the announced length have been received, so that a client regards the response as complete before
    /// it ends. It needs no bytes of a response that names a file.
    pub fn has_all(&self) -> bool {
        if self.send_file.is_some() {
            return true;
        }
        self.length()
            .is_some_and(|expected| self.received >= expected)
    }

    /// Waits until the program has ended after its client has received all announced bytes, as if the client were still
    /// connected: a script that closes its connection early goes on, and may print more, which is discarded.
    pub async fn run_out(&mut self) {
        let rest = async { while let Ok(Some(_)) = self.chunk().await {} };
        let _ = tokio::time::timeout(RUN_OUT, rest).await;
    }

    /// The length in the head, also in a response without a body (`HEAD`).
    pub fn announced(&self) -> Option<u64> {
        content_length(&self.fields)
    }

    /// The next piece of the body; `None` at the end.
    ///
    /// What follows the announced length is discarded (RFC 9112 section 6.3, as nginx does).
    ///
    /// Errors: [`FillError::Closed`] if the body ends before its announced length, [`FillError::Malformed`] if it is not
    /// validly coded, [`FillError::Timeout`] if no byte arrives in time. After an error or the end the slot is free
    /// again. Cancel-safe.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, FillError> {
        if self.decoder.is_some() {
            // A body that is large after decoding yields the thread to other tasks between its pieces.
            tokio::task::yield_now().await;
        }
        loop {
            let Some(decoder) = &mut self.decoder else {
                return self.raw().await;
            };
            match decoder.step() {
                Ok(DecodeStep::Piece(piece)) => return Ok(Some(piece)),
                Ok(DecodeStep::Working) => tokio::task::yield_now().await,
                Ok(DecodeStep::Hungry) => match self.raw().await? {
                    Some(coded) => self.feed(coded),
                    None => return self.decoded_end(),
                },
                Err(Undecodable) => {
                    self.slot = None;
                    return Err(FillError::Malformed);
                }
            }
        }
    }

    fn feed(&mut self, coded: Bytes) {
        if let Some(decoder) = &mut self.decoder {
            decoder.push(coded);
        }
    }

    fn decoded_end(&self) -> Result<Option<Bytes>, FillError> {
        let ended = self
            .decoder
            .as_ref()
            .map_or(Ok(()), |decoder| decoder.end());
        ended
            .map(|()| None)
            .map_err(|Undecodable| FillError::Closed)
    }

    /// The next piece as received.
    async fn raw(&mut self) -> Result<Option<Bytes>, FillError> {
        let received = loop {
            match self.received().await {
                Ok(Some(piece)) => {
                    let piece = self.within_length(piece);
                    let discards = piece.is_empty() || self.send_file.is_some();
                    if discards && self.is_discarding_too_long() {
                        break Err(FillError::Aborted);
                    }
                    if !piece.is_empty() {
                        break Ok(Some(piece));
                    }
                }
                Ok(None) => break self.ended(),
                Err(failure) => break Err(failure),
            }
        };
        if !matches!(received, Ok(Some(_))) {
            self.permit = None;
            self.slot = None;
            if let (Err(_), Some(span)) = (&received, &mut self.span) {
                span.fail("body");
            }
            self.span = None;
        }
        received
    }

    /// Whether the upstream has sent bytes that nobody needs for [`RUN_OUT`]: each piece would renew the timeout.
    fn is_discarding_too_long(&mut self) -> bool {
        let now = Instant::now();
        now - *self.discarding_since.get_or_insert(now) > RUN_OUT
    }

    /// The next piece, which may exceed the announced length.
    async fn received(&mut self) -> Result<Option<Bytes>, FillError> {
        match &mut self.body {
            // WordPress ends a 204 of its REST API with `null`. The records delimit it, so it is dropped.
            IncomingBody::FastCgi(reading) if has_no_content(self.status) => reading.skip().await,
            IncomingBody::FastCgi(reading) => reading.chunk().await,
            IncomingBody::Http(reading) => reading.chunk(self.expected).await,
            IncomingBody::Whole { pieces, .. } => Ok(pieces.pop_front()),
        }
    }

    /// Whether the program reported success. Known only after the end.
    pub fn ended_well(&self) -> bool {
        match &self.body {
            IncomingBody::FastCgi(reading) => reading.ended_well(),
            IncomingBody::Http(_) => true,
            IncomingBody::Whole { ended_well, .. } => *ended_well,
        }
    }

    /// Why a response that has ended must not be stored.
    pub fn check_whole(&self) -> Result<(), NotStored> {
        if !self.ended_well() {
            return Err(NotStored::Incomplete);
        }
        self.check_storable()
    }

    /// Why what has been received must not be stored.
    pub fn check_storable(&self) -> Result<(), NotStored> {
        if self.send_file.is_some() {
            Err(NotStored::SentFile)
        } else if self.is_repaired {
            Err(NotStored::Repaired)
        } else {
            Ok(())
        }
    }

    /// Counts a piece, and cuts off what follows the announced length.
    fn within_length(&mut self, mut piece: Bytes) -> Bytes {
        self.received += piece.len() as u64;
        if let Some(announced) = self.expected
            && let Some(excess) = self.received.checked_sub(announced)
            && excess > 0
        {
            self.note_excess(announced);
            self.received = announced;
            let left =
                usize::try_from(excess).map_or(0, |excess| piece.len().saturating_sub(excess));
            piece.truncate(left);
        }
        piece
    }

    fn note_excess(&mut self, announced: u64) {
        self.is_repaired = true;
        if let Some(source) = &self.source {
            source.repaired(Repair::Excess { announced });
        }
    }

    fn ended(&mut self) -> Result<Option<Bytes>, FillError> {
        let Some(announced) = self.expected else {
            return Ok(None);
        };
        if self.received < announced {
            return Err(FillError::Closed);
        }
        if matches!(&self.body, IncomingBody::Http(reading) if reading.is_excessive) {
            self.note_excess(announced);
        }
        Ok(None)
    }

    /// Waits for the end of a response that must have no content; content is an error.
    pub(super) async fn without_content(&mut self) -> Result<(), (FillError, BadResponse)> {
        loop {
            match self.chunk().await {
                Ok(None) => return Ok(()),
                Ok(Some(piece)) if piece.is_empty() => {}
                Ok(Some(_)) => return Err((FillError::Malformed, BadResponse::Content)),
                Err(failure) => return Err((failure, BadResponse::Content)),
            }
        }
    }
}

fn length_of(pieces: &[Bytes]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// How long a program may run after it has sent all announced bytes. It occupies a slot for that time.
const RUN_OUT: Duration = Duration::from_secs(300);

/// The fields that describe the bytes of a body or parts of them.
const BODY_FIELDS: [&str; 7] = [
    "accept-ranges",
    "content-digest",
    "content-md5",
    "digest",
    "etag",
    "last-modified",
    "repr-digest",
];

/// Whether a response with this status has no content, even if the upstream sends some (RFC 9110 §6.4.1, §15.3.6).
fn has_no_content(status: StatusCode) -> bool {
    matches!(status.as_u16(), 204 | 205 | 304)
}

fn content_length(fields: &HeaderMap) -> Option<u64> {
    fields
        .get(http::header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}
