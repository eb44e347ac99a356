//! The state of one connection: QUIC, HTTP/3, and the streams of its requests.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use galley_http::h3::{self, H3Code, H3Connection, H3Error, UniOutput};
use quinn_proto::crypto::rustls::HandshakeData;
use quinn_proto::{Connection, Dir, Event, Side, StreamEvent, StreamId, VarInt};

use super::amplification::UnvalidatedAddress;
use super::deadlines::Http3Clocks;
use super::hit;
use super::link::ConnectionLink;
use super::streams::{RequestStream, StreamFailure, StreamInput};
use crate::Core;
use crate::endpoints::Endpoints;
use crate::http2::limits::header_list;
use crate::stream_hit::HitBuffers;
use galley_cache::budget::Reservation;
use galley_request::Sites;
use galley_telemetry::counters::Handshake;
use galley_telemetry::http2::{Http2ConnectionCounts, Http2EndReason};
use galley_tls::{Certificates, SelectedCertificates};

/// The state of a connection.
pub(super) struct Http3State {
    pub(super) quic: Connection,
    pub(super) h3: H3Connection,
    pub(super) streams: HashMap<StreamId, RequestStream>,
    control: Option<StreamId>,
    pub(super) stage: Http3Stage,
    pub(super) sites: Arc<Sites>,
    certificates: Arc<Certificates>,
    pub(super) endpoints: Endpoints,
    pub(super) hit_buffers: HitBuffers,
    pub(super) clocks: Http3Clocks,
    pub(super) counts: Http2ConnectionCounts,
    /// Why Galley has ended the connection.
    pub(super) ended: Option<(Http2EndReason, &'static str)>,
    /// An error that a task has found.
    pub(super) failure: Option<H3Error>,
    /// The memory of a send window that has grown.
    pub(super) window: Option<Reservation>,
    /// The bytes that QUIC has accepted.
    pub(super) accepted: u64,
    pub(super) unvalidated: UnvalidatedAddress,
}

/// The part of its life in which a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Http3Stage {
    Handshake,
    Open,
    /// `GOAWAY` was sent. `Some`: requests on this stream and above are rejected.
    Closing(Option<u64>),
    /// No stream is served any more.
    Ended,
}

impl Http3State {
    pub(super) fn new(
        core: &Core,
        quic: Connection,
        sites: Arc<Sites>,
        certificates: Arc<Certificates>,
        endpoints: Endpoints,
    ) -> Self {
        Self {
            quic,
            h3: H3Connection::new(core.timers.now_ms()),
            streams: HashMap::new(),
            control: None,
            stage: Http3Stage::Handshake,
            sites,
            certificates,
            endpoints,
            hit_buffers: HitBuffers::default(),
            clocks: Http3Clocks::default(),
            counts: Http2ConnectionCounts::default(),
            ended: None,
            failure: None,
            window: None,
            accepted: 0,
            unvalidated: UnvalidatedAddress::default(),
        }
    }

    /// Handles everything that has happened.
    pub(super) fn advance(&mut self, link: &Rc<ConnectionLink>, now: Instant) {
        self.h3.flood.set_time(link.core.timers.now_ms());
        while let Some(event) = self.quic.poll() {
            let handled = match event {
                Event::Connected => self.open(link),
                Event::ConnectionLost { .. } => {
                    self.end(&link.core);
                    Ok(())
                }
                Event::Stream(event) if self.stage != Http3Stage::Ended => {
                    self.stream_event(link, event)
                }
                Event::Stream(_)
                | Event::HandshakeDataReady
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => Ok(()),
            };
            if let Err(error) = handled {
                self.fail(&link.core, now, error);
            }
        }
        let overdrawn = H3Error::Connection(H3Code::ExcessiveLoad);
        let overdrawn = self.h3.flood.is_overdrawn().then_some(overdrawn);
        if let Some(error) = self.failure.take().or(overdrawn) {
            self.fail(&link.core, now, error);
        }
        self.widen(&link.core);
    }

    /// The handshake is complete: begins HTTP/3.
    fn open(&mut self, link: &Rc<ConnectionLink>) -> Result<(), H3Error> {
        let core = &link.core;
        core.counters.handshake(Handshake::Full);
        self.unvalidated.end();
        let data = self.quic.crypto_session().handshake_data();
        let data = data.and_then(|data| data.downcast::<HandshakeData>().ok());
        let name = data.and_then(|data| data.server_name);
        let presented = SelectedCertificates::new(&self.certificates, name.as_deref());
        self.sites = Arc::new(self.sites.under(presented));
        self.stage = Http3Stage::Open;
        if !link.take_slot(self.endpoints.client, &self.sites) {
            return Err(H3Error::Connection(H3Code::ExcessiveLoad));
        }
        let mut preface = Vec::new();
        let most = u64::from(header_list(core.limits.head_bytes));
        h3::write_control_stream(&mut preface, most);
        // Without the client's permission for this stream there is no HTTP/3 (RFC 9114 section 6.2).
        let control = self.quic.streams().open(Dir::Uni);
        let control = control.ok_or(H3Error::Connection(H3Code::StreamCreation))?;
        self.control = Some(control);
        self.write_control(&preface)
    }

    fn write_control(&mut self, bytes: &[u8]) -> Result<(), H3Error> {
        let Some(control) = self.control else {
            return Ok(());
        };
        let written = self.quic.send_stream(control).write(bytes);
        if written == Ok(bytes.len()) {
            return Ok(());
        }
        // A client permits at least a kilobyte, or it has closed the stream.
        Err(H3Error::Connection(H3Code::ClosedCriticalStream))
    }

    fn stream_event(
        &mut self,
        link: &Rc<ConnectionLink>,
        event: StreamEvent,
    ) -> Result<(), H3Error> {
        match event {
            StreamEvent::Opened { dir: Dir::Bi } => {
                while let Some(id) = self.quic.streams().accept(Dir::Bi) {
                    self.open_request(link, id)?;
                }
                Ok(())
            }
            StreamEvent::Opened { dir: Dir::Uni } => {
                while let Some(id) = self.quic.streams().accept(Dir::Uni) {
                    self.read_uni(id)?;
                }
                Ok(())
            }
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => self.read_uni(id),
            StreamEvent::Readable { id } => match self.streams.get_mut(&id) {
                Some(stream) if stream.head_until.is_some() => self.read_head(link, id),
                Some(stream) => {
                    stream.wake_reader();
                    Ok(())
                }
                None => Ok(()),
            },
            StreamEvent::Writable { id } => {
                self.flush(&link.core, id);
                Ok(())
            }
            StreamEvent::Finished { id } => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.is_received = true;
                    if !stream.has_task {
                        self.streams.remove(&id);
                    }
                }
                Ok(())
            }
            StreamEvent::Stopped { id, .. } => self.cancel(&link.core, id),
            StreamEvent::Available { .. } => Ok(()),
        }
    }

    fn open_request(&mut self, link: &Rc<ConnectionLink>, id: StreamId) -> Result<(), H3Error> {
        self.counts.streams += 1;
        let most = header_list(link.core.limits.head_bytes);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let until = link.timer.deadline(link.core.limits.head_timeout);
        let mut stream = RequestStream::new(id, most, until);
        if let Http3Stage::Closing(Some(first)) = self.stage
            && VarInt::from(id).into_inner() >= first
        {
            stream.reset(&mut self.quic, H3Code::RequestRejected);
            return Ok(());
        }
        self.streams.insert(id, stream);
        self.read_head(link, id)
    }

    /// Reads the head of a request as far as it has arrived, and begins to answer when it is complete.
    fn read_head(&mut self, link: &Rc<ConnectionLink>, id: StreamId) -> Result<(), H3Error> {
        let core = &link.core;
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        let mut block = core.spare.take_block();
        match stream.read(&mut self.quic, &mut block, &mut self.h3.flood) {
            Ok(StreamInput::Head) => {
                stream.head_until = None;
                self.clocks.requests += 1;
                match stream.probe_end(&mut self.quic) {
                    Ok(is_end) => {
                        hit::answer(self, link, id, block, is_end);
                        return Ok(());
                    }
                    Err(failure) => return self.stream_failed(core, id, failure),
                }
            }
            Ok(StreamInput::HeadTooLarge) => {
                stream.head_until = None;
                hit::refuse_head(self, link, id);
            }
            Ok(StreamInput::Blocked | StreamInput::Data(_) | StreamInput::End) => {}
            Err(failure) => return self.stream_failed(core, id, failure),
        }
        core.spare.return_block(block);
        Ok(())
    }

    /// Ends a stream that has failed, or returns the error that ends the connection.
    fn stream_failed(
        &mut self,
        core: &Core,
        id: StreamId,
        failure: StreamFailure,
    ) -> Result<(), H3Error> {
        match failure {
            StreamFailure::Gone => self.cancel(core, id),
            StreamFailure::Error(H3Error::Stream(code)) => {
                self.reset(id, code);
                self.streams.remove(&id);
                Ok(())
            }
            StreamFailure::Error(error) => Err(error),
        }
    }

    fn read_uni(&mut self, id: StreamId) -> Result<(), H3Error> {
        let number = VarInt::from(id).into_inner();
        loop {
            let mut stream = self.quic.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else {
                return Ok(());
            };
            let next = chunks.next(usize::MAX);
            let _ = chunks.finalize();
            let chunk = match next {
                Ok(Some(chunk)) => chunk.bytes,
                Ok(None) | Err(quinn_proto::ReadError::Reset(_)) => return self.h3.end_uni(number),
                Err(quinn_proto::ReadError::Blocked) => return Ok(()),
            };
            let mut rest = &chunk[..];
            loop {
                match self.h3.read_uni(number, &mut rest)? {
                    UniOutput::More => break,
                    UniOutput::Priority { stream, urgency } => {
                        let id = StreamId::new(Side::Client, Dir::Bi, stream / STREAM_KINDS);
                        self.set_urgency(id, urgency);
                    }
                    UniOutput::Stop => {
                        let code = VarInt::from_u32(u32::from(H3Code::StreamCreation as u16));
                        let _ = self.quic.recv_stream(id).stop(code);
                        return self.h3.end_uni(number);
                    }
                }
            }
        }
    }

    /// The client has cancelled a request.
    fn cancel(&mut self, core: &Core, id: StreamId) -> Result<(), H3Error> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        if std::mem::replace(&mut stream.is_cancelled, true) {
            return Ok(());
        }
        self.counts.resets_by_client += 1;
        stream.reset(&mut self.quic, H3Code::RequestCancelled);
        stream.wake_reader();
        stream.wake_sender();
        if let Some(mut hit) = stream.hit.take() {
            hit.record(core, true);
        }
        if !stream.has_task {
            self.streams.remove(&id);
        }
        self.h3.flood.reset()
    }

    /// Gives the output of a stream to QUIC.
    pub(super) fn flush(&mut self, core: &Core, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        match stream.flush(&mut self.quic, &mut self.accepted) {
            Ok(true) => {
                if let Some(hit) = &mut stream.hit {
                    hit.record(core, false);
                }
                stream.wake_sender();
            }
            Ok(false) => {}
            Err(_) => stream.wake_sender(),
        }
    }

    /// Ends the connection because of an error.
    pub(super) fn fail(&mut self, core: &Core, now: Instant, error: H3Error) {
        let (H3Error::Connection(code) | H3Error::Stream(code)) = error;
        let why = match code {
            H3Code::ExcessiveLoad => (
                Http2EndReason::Flood,
                "too many frames or streams without effect",
            ),
            _ => (Http2EndReason::Protocol, "protocol error"),
        };
        self.close(core, now, code, Some(why));
    }

    /// Ends the connection.
    pub(super) fn close(
        &mut self,
        core: &Core,
        now: Instant,
        code: H3Code,
        why: Option<(Http2EndReason, &'static str)>,
    ) {
        if self.stage == Http3Stage::Ended {
            return;
        }
        self.ended = self.ended.or(why);
        let code = VarInt::from_u32(u32::from(code as u16));
        self.quic.close(now, code, Bytes::new());
        self.end(core);
    }

    /// Announces that the connection ends. Requests are accepted until [`Http3State::close_rest`].
    pub(super) fn begin_closing(&mut self) {
        if self.stage == Http3Stage::Open {
            self.stage = Http3Stage::Closing(None);
            let mut frame = Vec::new();
            h3::write_goaway(&mut frame, LAST_STREAM);
            // A client that permits no more on the control stream learns it from the end of the connection.
            let _ = self.write_control(&frame);
        }
    }

    /// Rejects requests from now on: the client may send them on another connection.
    pub(super) fn close_rest(&mut self) {
        if self.stage == Http3Stage::Closing(None) {
            let first = self.counts.streams * STREAM_KINDS;
            self.stage = Http3Stage::Closing(Some(first));
            let mut frame = Vec::new();
            h3::write_goaway(&mut frame, first);
            let _ = self.write_control(&frame);
        }
    }

    /// Ends all streams of a connection that has ended.
    fn end(&mut self, core: &Core) {
        self.stage = Http3Stage::Ended;
        for mut stream in std::mem::take(&mut self.streams).into_values() {
            if let Some(mut hit) = stream.hit.take() {
                hit.record(core, true);
            }
            stream.wake_reader();
            stream.wake_sender();
        }
    }

    /// Permits more output in flight on a connection whose path takes more.
    fn widen(&mut self, core: &Core) {
        let wanted = self.quic.congestion_state().window().saturating_mul(2);
        let wanted = wanted.min(super::settings::MAX_SEND_WINDOW);
        let held = self.window.as_ref().map_or(0, Reservation::bytes);
        let more = wanted.saturating_sub(super::settings::SEND_WINDOW + held);
        if more < super::settings::SEND_WINDOW {
            return;
        }
        let has_grown = match &mut self.window {
            Some(window) => window.try_grow(more).is_ok(),
            none => {
                *none = core.services.http2_memory.try_reserve(more);
                none.is_some()
            }
        };
        if has_grown {
            self.quic.set_send_window(wanted);
        }
    }

    /// Sets the urgency of a response: 0 is sent first.
    pub(super) fn set_urgency(&mut self, id: StreamId, urgency: u8) {
        if self.streams.contains_key(&id) {
            // It may have ended.
            let _ = self.quic.send_stream(id).set_priority(-i32::from(urgency));
        }
    }
}

/// The largest id of a client's stream for requests.
const LAST_STREAM: u64 = (1 << 62) - 4;

/// The ids of streams of one kind differ by this (RFC 9000 section 2.1).
const STREAM_KINDS: u64 = 4;
