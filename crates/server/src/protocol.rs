//! The interface between an exchange and a version of HTTP, which receives the body and sends interim responses.

use bytes::Bytes;
use galley_http::body::BodyReader;
use galley_http::framing::Framing;
use galley_policy::outcome::RefusedWhy;

use super::Core;
use super::speed::ReceiveProgress;
use super::timer::{DeadlinePassed, Timer};
use galley_request::fault::Fault;
use galley_upstream::interim::Interim;

/// The part of an exchange that depends on the version of HTTP.
pub(super) trait Protocol {
    /// Sends `100 Continue` to a client that waits for it before it sends the body (RFC 9110 §10.1.1).
    async fn send_continue(&mut self) -> Result<(), ClientDisconnected>;

    /// The next part of the body, of at most [`galley_upstream::body::streamed_body::PART_BYTES`]; `None` at the end. Cancel-safe.
    async fn body_part(
        &mut self,
        core: &Core,
        body: &mut ArrivingBody,
    ) -> Result<Option<Bytes>, BodyError>;

    /// Sends an interim response (RFC 9110 §15.2). Errors: the client has disconnected.
    async fn send_interim(&mut self, interim: Interim) -> Result<(), ClientDisconnected>;

    /// Ready when the client has disconnected.
    async fn closed(&mut self);
}

/// The client has closed the connection or reset the stream.
pub(super) struct ClientDisconnected;

/// Why a body could not be received.
pub(super) enum BodyError {
    Gone,
    /// It was too slow.
    Late,
    Fault(Fault),
}

impl From<Fault> for BodyError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<ClientDisconnected> for BodyError {
    fn from(_: ClientDisconnected) -> Self {
        Self::Gone
    }
}

/// A request body while its protocol receives it.
pub(super) struct ArrivingBody {
    /// The framing of an HTTP/1 body.
    pub(super) reader: BodyReader,
    /// Bytes that an HTTP/2 or HTTP/3 body may still have; its frames mark the end.
    pub(super) room: u64,
    /// The speed of the client; `None`: Galley is not waiting for the client.
    pub(super) progress: Option<ReceiveProgress>,
}

impl ArrivingBody {
    /// A body of at most `limit` bytes, of which none has been received.
    pub(super) fn new(framing: &Framing<'_>, limit: u64) -> Self {
        Self {
            reader: BodyReader::new(framing.body, limit),
            room: limit,
            progress: None,
        }
    }

    /// Counts bytes of an HTTP/2 or HTTP/3 body: the client has to be fast enough, and the site permits no more than the room.
    pub(super) fn receive(&mut self, bytes: usize, timer: &Timer) -> Result<(), BodyError> {
        if let Some(progress) = &mut self.progress {
            progress.add(bytes);
            let judged = progress.judge(timer);
            judged.map_err(|DeadlinePassed| BodyError::Late)?;
        }
        let room = self.room.checked_sub(bytes as u64);
        let note = "more bytes than the site allows";
        self.room = room.ok_or_else(|| Fault::new(RefusedWhy::BodyTooLarge, note))?;
        Ok(())
    }
}
