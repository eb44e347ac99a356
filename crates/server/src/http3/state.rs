//! The state of one connection: QUIC, HTTP/3, and the streams of its requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use galley_http::h3::{self, H3Code, H3Connection, H3Error};
use quinn_proto::{Connection, StreamId, VarInt};

use super::amplification::UnvalidatedAddress;
use super::clocks::{Http3Clocks, Http3Stage};
use super::memory::Http3Memory;
use super::settings;
use super::streams::RequestStream;
use crate::Core;
use crate::endpoints::Endpoints;
use crate::stream_hit::HitBuffers;
use galley_request::Sites;
use galley_telemetry::http2::{Http2ConnectionCounts, Http2EndReason};
use galley_tls::Certificates;

/// The state of a connection.
pub(super) struct Http3State {
    pub(super) quic: Connection,
    pub(super) h3: H3Connection,
    pub(super) streams: HashMap<StreamId, RequestStream>,
    pub(super) control: Option<StreamId>,
    pub(super) stage: Http3Stage,
    /// Whether the connection ends as soon as it is open, because a reload came during its handshake.
    pub(super) closes_when_open: bool,
    pub(super) sites: Arc<Sites>,
    pub(super) certificates: Arc<Certificates>,
    pub(super) endpoints: Endpoints,
    pub(super) hit_buffers: HitBuffers,
    pub(super) clocks: Http3Clocks,
    pub(super) counts: Http2ConnectionCounts,
    /// Why Galley has ended the connection.
    pub(super) ended: Option<(Http2EndReason, &'static str)>,
    /// An error that a task has found.
    pub(super) failure: Option<H3Error>,
    pub(super) memory: Http3Memory,
    /// The bytes that QUIC has accepted.
    pub(super) accepted: u64,
    pub(super) unvalidated: UnvalidatedAddress,
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
            closes_when_open: false,
            sites,
            certificates,
            endpoints,
            hit_buffers: HitBuffers::default(),
            clocks: Http3Clocks::default(),
            counts: Http2ConnectionCounts::default(),
            ended: None,
            failure: None,
            memory: Http3Memory::new(&core.services.http2_memory),
            accepted: 0,
            unvalidated: UnvalidatedAddress::default(),
        }
    }

    pub(super) fn write_control(&mut self, bytes: &[u8]) -> Result<(), H3Error> {
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

    /// The client has cancelled a request.
    pub(super) fn cancel(&mut self, core: &Core, id: StreamId) -> Result<(), H3Error> {
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

    /// Announces that the connection ends, as soon as it is open. Requests are accepted until [`Http3State::close_rest`].
    pub(super) fn begin_closing(&mut self) {
        self.closes_when_open = true;
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
    pub(super) fn end(&mut self, core: &Core) {
        self.stage = Http3Stage::Ended;
        self.memory.narrow();
        for mut stream in std::mem::take(&mut self.streams).into_values() {
            if let Some(mut hit) = stream.hit.take() {
                hit.record(core, true);
            }
            stream.wake_reader();
            stream.wake_sender();
        }
    }

    /// Permits more output in flight on a connection whose path takes more.
    pub(super) fn widen(&mut self) {
        let taken = self.quic.congestion_state().window();
        if !self.streams.is_empty()
            && let Some(window) = self.memory.widen_sending(taken)
        {
            self.quic.set_send_window(window);
        }
    }

    /// Reserves the memory that the client's requests use now. False: it is too much.
    pub(super) fn hold_memory(&mut self) -> bool {
        let is_incomplete = |stream: &RequestStream| !stream.is_input_ended();
        let window = if self.streams.values().any(is_incomplete) {
            self.memory.receive_window()
        } else {
            0
        };
        let streams = self.streams.values().map(RequestStream::memory);
        self.memory.hold(window + streams.sum::<u64>())
    }

    /// Lets the client send more of a request body ahead.
    pub(super) fn widen_receiving(&mut self) {
        if let Some(window) = self.memory.widen_receiving() {
            self.quic.set_receive_window(settings::window(window));
        }
    }

    /// Releases the memory of a connection without a request.
    pub(super) fn narrow(&mut self) {
        if self.memory.narrow() {
            self.quic.set_send_window(settings::SEND_WINDOW);
            let window = settings::window(settings::RECEIVE_WINDOW);
            self.quic.set_receive_window(window);
        }
    }

    /// Rejects a request for which there is no memory: the client may send it again. It has no access record, as streams that HTTP/2
    /// refuses.
    pub(super) fn reject(&mut self, core: &Core, id: StreamId) {
        self.reset(id, H3Code::RequestRejected);
        if let Some(mut hit) = self.streams.remove(&id).and_then(|stream| stream.hit) {
            hit.record(core, true);
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
pub(super) const STREAM_KINDS: u64 = 4;
