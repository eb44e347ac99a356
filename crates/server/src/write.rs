//! Writes responses: framing, connection persistence, bodies from memory, from a fill or from a file.

use std::sync::Arc;

use bytes::Bytes;
use galley_cache::disk::BodyPieces;
use galley_cache::fill::{FillError, FillRead as Ready, FillReader};
use galley_files::BodyPiece;
use galley_http::head::Version;
use galley_http::response_writer::{self, CHUNK_END, ConnectionField, LAST_CHUNK, Length};
use http::HeaderValue;
use http::header::UPGRADE;
use tokio::task::spawn_blocking;

use super::io::{ClientConnection, IoError};
use super::record::RecordEnd;
use super::span;
use galley_request::{Response, ResponseBody, length_of};
use galley_telemetry::fields::ResponseValues;
use galley_upstream::interim::Interim;

/// Whether the connection serves another request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterResponse {
    Request,
    Close,
    /// Without a close notification: the client has disconnected.
    Drop,
}

/// The client's version of HTTP, and whether it keeps the connection open.
#[derive(Clone, Copy)]
pub(super) struct ClientProtocol {
    pub(super) version: Version,
    pub(super) keep_alive: bool,
}

impl ClientProtocol {
    pub(super) fn closing() -> Self {
        Self {
            version: Version::H11,
            keep_alive: false,
        }
    }

    pub(super) fn closing_if(self, closes: bool) -> Self {
        Self {
            keep_alive: self.keep_alive && !closes,
            ..self
        }
    }

    fn connection(self) -> ConnectionField {
        match (self.keep_alive, self.version) {
            (false, _) => ConnectionField::Close,
            (true, Version::H10) => ConnectionField::KeepAlive10,
            (true, Version::H11 | Version::H2 | Version::H3) => ConnectionField::KeepAlive,
        }
    }
}

/// Writes a response. The record's end counts the sent bytes, even if the client disconnected.
pub(super) async fn send_response(
    connection: &mut ClientConnection,
    mut response: Response,
    mut peer: ClientProtocol,
) -> (RecordEnd, AfterResponse) {
    let body = std::mem::replace(&mut response.body, ResponseBody::None);
    let mut sent = 0;
    let result = match body {
        ResponseBody::None => plain(connection, &response, peer, Length::None, &[]).await,
        ResponseBody::Unsent(length) => {
            let length = length.map_or(Length::None, Length::Known);
            plain(connection, &response, peer, length, &[]).await
        }
        ResponseBody::Bytes(bytes) => {
            sent = bytes.len() as u64;
            plain(connection, &response, peer, Length::Known(sent), &[bytes]).await
        }
        ResponseBody::Pieces(pieces) => {
            sent = length_of(&pieces);
            plain(connection, &response, peer, Length::Known(sent), &pieces).await
        }
        ResponseBody::Fill(reader, length) => {
            fill(
                connection,
                &response,
                &mut peer,
                IncomingBodyReader { reader, length },
                &mut sent,
            )
            .await
        }
        ResponseBody::File {
            file,
            parts,
            length,
        } => {
            head(connection, &response, peer, Length::Known(length));
            send_parts(connection, &BodySource::File(file), parts, &mut sent).await
        }
        ResponseBody::Stored {
            pieces,
            parts,
            length,
        } => {
            head(connection, &response, peer, Length::Known(length));
            send_parts(connection, &BodySource::Pieces(pieces), parts, &mut sent).await
        }
    };
    let next = match (&result, peer.keep_alive) {
        (Err(_), _) => AfterResponse::Drop,
        (Ok(()), true) => AfterResponse::Request,
        (Ok(()), false) => AfterResponse::Close,
    };
    let end = RecordEnd {
        status: response.status,
        outcome: response.outcome,
        body_bytes: sent,
        upstream_time: response.upstream_time,
        vanished: result.is_err(),
        logged: ResponseValues::new(),
    };
    (end, next)
}

fn head(
    connection: &mut ClientConnection,
    response: &Response,
    peer: ClientProtocol,
    length: Length,
) {
    let stored = response.fields.map().iter();
    let extra = response.extra.iter().map(|(name, value)| (name, value));
    let date = connection.date.get();
    // RFC 9110 §6.6.1: a response that Galley generates is dated here; a stored one keeps its date.
    let undated = !response.fields.map().contains_key(http::header::DATE);
    let fields = stored
        .chain(extra)
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .chain(undated.then_some(("date", date.as_slice())));
    connection.output.clear();
    response_writer::write_head(
        &mut connection.output,
        response.status,
        fields,
        length,
        peer.connection(),
    );
}

/// Writes the head that ends HTTP on a connection (RFC 9110 §15.2.2).
pub(super) async fn switching(
    connection: &mut ClientConnection,
    response: &Response,
    protocol: &HeaderValue,
) -> Result<(), IoError> {
    let stored = response.fields.map().iter();
    let extra = response.extra.iter().map(|(name, value)| (name, value));
    let own = std::iter::once((&UPGRADE, protocol));
    let fields = stored.chain(extra).chain(own);
    connection.output.clear();
    response_writer::write_head(
        &mut connection.output,
        response.status,
        fields.map(|(name, value)| (name.as_str(), value.as_bytes())),
        Length::None,
        ConnectionField::Upgrade,
    );
    connection.send(&[]).await
}

async fn plain(
    connection: &mut ClientConnection,
    response: &Response,
    peer: ClientProtocol,
    length: Length,
    body: &[Bytes],
) -> Result<(), IoError> {
    head(connection, response, peer, length);
    connection.send(body).await
}

/// Writes an interim response (RFC 9110 §15.2). Only towards HTTP/1.1.
pub(super) async fn interim(
    connection: &mut ClientConnection,
    interim: &Interim,
) -> Result<(), IoError> {
    let fields = interim.fields.iter();
    connection.output.clear();
    response_writer::write_head(
        &mut connection.output,
        interim.status.as_u16(),
        fields.map(|(name, value)| (name.as_str(), value.as_bytes())),
        Length::None,
        ConnectionField::KeepAlive,
    );
    connection.send(&[]).await
}

struct IncomingBodyReader {
    reader: FillReader,
    length: Option<u64>,
}

/// A body that is still being received. Framed by its length if that is known or the whole body has been received, else in
/// chunks for HTTP/1.1. For HTTP/1.0 it is collected first, or if it is too long for that, sent until the connection closes.
/// The part that has been received is sent with the head.
async fn fill(
    connection: &mut ClientConnection,
    response: &Response,
    peer: &mut ClientProtocol,
    mut body: IncomingBodyReader,
    sent: &mut u64,
) -> Result<(), IoError> {
    let mut ahead = BufferedBody::default();
    let waits = body.length.is_none() && peer.version == Version::H10;
    if waits {
        ahead.wait(connection, &mut body.reader).await?;
    } else {
        ahead.gather(&mut body.reader);
    }
    let length = match (body.length, peer.version) {
        (Some(length), _) => Length::Known(length),
        (None, _) if ahead.is_whole => Length::Known(ahead.bytes),
        (None, Version::H10) => {
            peer.keep_alive = false;
            Length::UntilClose
        }
        (None, Version::H11 | Version::H2 | Version::H3) => Length::Chunked,
    };
    let chunked = matches!(length, Length::Chunked);
    head(connection, response, *peer, length);
    *sent += ahead.bytes;
    if chunked && ahead.bytes > 0 {
        let size = usize::try_from(ahead.bytes).unwrap_or(usize::MAX);
        response_writer::write_chunk_head(&mut connection.output, size);
        ahead.pieces.push(Bytes::from_static(CHUNK_END));
    }
    if ahead.is_whole {
        return connection.send(&ahead.pieces).await;
    }
    // Also if only the head has been received: the upstream may pause for long after it.
    connection.send(&ahead.pieces).await?;
    // Not kept for the length of a download, because its memory counts towards a limit.
    drop(ahead);
    pump(connection, &mut body.reader, chunked, sent).await?;
    let last = if chunked {
        Bytes::from_static(LAST_CHUNK)
    } else {
        Bytes::new()
    };
    connection.send(&[last]).await
}

/// The part of a body that has been received before its head is sent.
#[derive(Default)]
pub(super) struct BufferedBody {
    pub(super) pieces: Vec<Bytes>,
    pub(super) bytes: u64,
    pub(super) is_whole: bool,
}

impl BufferedBody {
    /// Takes the received pieces, up to a limit. A failure is reported again when the rest is awaited.
    pub(super) fn gather(&mut self, reader: &mut FillReader) {
        while self.pieces.len() < MAX_PIECES {
            match reader.try_next() {
                Ok(Ready::Chunk(chunk)) => self.push(chunk),
                Ok(Ready::End) => {
                    self.is_whole = true;
                    break;
                }
                Ok(Ready::Pending) | Err(_) => break,
            }
        }
    }

    /// Collects a whole body, up to a limit: for HTTP/1.0, which has no chunks.
    async fn wait(
        &mut self,
        connection: &mut ClientConnection,
        reader: &mut FillReader,
    ) -> Result<(), IoError> {
        while self.bytes < MAX_AHEAD {
            match next(connection, reader).await? {
                Ok(Some(chunk)) => self.push(chunk),
                Ok(None) => {
                    self.is_whole = true;
                    return Ok(());
                }
                Err(_) => return Err(IoError::Closed),
            }
        }
        Ok(())
    }

    fn push(&mut self, chunk: Bytes) {
        self.bytes += chunk.len() as u64;
        self.pieces.push(chunk);
    }
}

/// Forwards a body as it is received.
async fn pump(
    connection: &mut ClientConnection,
    reader: &mut FillReader,
    chunked: bool,
    sent: &mut u64,
) -> Result<(), IoError> {
    loop {
        let Ok(next) = next(connection, reader).await? else {
            // The only possible signal is to close: the bytes sent so far are fewer than announced, so the client notices.
            if !connection.output.is_empty() {
                connection.send(&[]).await?;
            }
            return Err(IoError::Closed);
        };
        let Some(chunk) = next else { return Ok(()) };
        *sent += chunk.len() as u64;
        if chunked {
            response_writer::write_chunk_head(&mut connection.output, chunk.len());
            connection
                .send(&[chunk, Bytes::from_static(CHUNK_END)])
                .await?;
        } else {
            connection.send(&[chunk]).await?;
        }
    }
}

/// The next piece of a body. Ends with an error if the client disconnects, even while the upstream sends nothing.
async fn next(
    connection: &mut ClientConnection,
    reader: &mut FillReader,
) -> Result<Result<Option<Bytes>, FillError>, IoError> {
    tokio::select! {
        biased;
        next = reader.next() => Ok(next),
        () = connection.vanished() => Err(IoError::Closed),
    }
}

/// The source of the parts.
enum BodySource {
    File(Arc<std::fs::File>),
    Pieces(Arc<BodyPieces>),
}

/// Sends parts of a file or of a stored body.
async fn send_parts(
    connection: &mut ClientConnection,
    source: &BodySource,
    parts: Vec<BodyPiece>,
    sent: &mut u64,
) -> Result<(), IoError> {
    for part in parts {
        match (part, source) {
            (BodyPiece::Bytes(bytes), _) => {
                *sent += bytes.len() as u64;
                connection.send(&[bytes.into()]).await?;
            }
            (BodyPiece::Span { start, end }, BodySource::File(file)) => {
                span::send(connection, file, start..end, sent).await?;
            }
            (BodyPiece::Span { start, end }, BodySource::Pieces(pieces)) => {
                let mut at = start;
                while at < end {
                    let piece = read_verified(pieces, at, end).await?;
                    at += piece.len() as u64;
                    *sent += piece.len() as u64;
                    connection.send(&[piece]).await?;
                }
            }
        }
    }
    if connection.output.is_empty() {
        Ok(())
    } else {
        connection.send(&[]).await
    }
}

/// A piece of a stored body, read and verified on a helper thread.
pub(super) async fn read_verified(
    pieces: &Arc<BodyPieces>,
    at: u64,
    end: u64,
) -> Result<Bytes, IoError> {
    let pieces = Arc::clone(pieces);
    let buffer = Vec::with_capacity(pieces.longest_piece());
    // A damaged block ends the response early: sent bytes cannot be taken back.
    spawn_blocking(move || pieces.read_into(&(at..end), buffer))
        .await
        .ok()
        .and_then(Result::ok)
        .filter(|piece| !piece.is_empty())
        .ok_or(IoError::Closed)
}

/// Maximum size of a body that is collected for an HTTP/1.0 client to keep its connection open: any page, not a download.
const MAX_AHEAD: u64 = 1024 * 1024;

/// Maximum number of pieces that are sent with the head: PHP's have 8 KiB, and one system call sends a few dozen efficiently.
const MAX_PIECES: usize = 16;
