//! What happens on one connection: events of QUIC, streams that begin, and heads of requests.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use galley_http::h2;
use galley_http::h3::{self, H3Code, H3Error, UniOutput};
use galley_http::hpack::Block;
use quinn_proto::crypto::rustls::HandshakeData;
use quinn_proto::{Dir, Event, Side, StreamEvent, StreamId, VarInt};

use super::clocks::Http3Stage;
use super::hit;
use super::link::ConnectionLink;
use super::request_head::Http3Head;
use super::state::{Http3State, STREAM_KINDS};
use super::streams::{BehindHead, RequestStream, StreamFailure, StreamInput};
use crate::Core;
use crate::http2::limits::header_list;
use galley_telemetry::counters::Handshake;
use galley_tls::SelectedCertificates;

impl Http3State {
    /// Handles everything that has happened.
    pub(super) fn advance(&mut self, link: &Rc<ConnectionLink>, now: Instant) {
        self.h3.flood.set_time(link.core.timers.now_ms());
        while let Some(event) = self.quic.poll() {
            let handled = match event {
                Event::Connected => self.open(link, now),
                Event::HandshakeDataReady => {
                    // Requests in early data come before the connection is open.
                    if self.quic.has_0rtt() {
                        self.select_sites();
                    }
                    Ok(())
                }
                Event::ConnectionLost { .. } => {
                    self.end(&link.core);
                    Ok(())
                }
                Event::Stream(event) if self.stage != Http3Stage::Ended => {
                    self.stream_event(link, &event)
                }
                Event::Stream(_) | Event::DatagramReceived | Event::DatagramsUnblocked => Ok(()),
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
        self.widen();
    }

    /// The handshake is complete: begins HTTP/3.
    fn open(&mut self, link: &Rc<ConnectionLink>, now: Instant) -> Result<(), H3Error> {
        let core = &link.core;
        core.counters.handshake(Handshake::Full);
        self.unvalidated.end();
        self.select_sites();
        self.stage = Http3Stage::Open;
        if !link.take_slot(self.endpoints.client, &self.sites) {
            // No flood: many clients can share an address.
            self.close(core, now, H3Code::ExcessiveLoad, None);
            return Ok(());
        }
        let mut preface = Vec::new();
        let most = u64::from(header_list(core.limits.head_bytes));
        h3::write_control_stream(&mut preface, most);
        // Without the client's permission for this stream there is no HTTP/3 (RFC 9114 section 6.2).
        let control = self.quic.streams().open(Dir::Uni);
        let control = control.ok_or(H3Error::Connection(H3Code::StreamCreation))?;
        self.control = Some(control);
        self.write_control(&preface)?;
        if self.closes_when_open {
            self.begin_closing();
        }
        self.answer_early(link)
    }

    /// Selects the sites whose hosts may be requested, by the certificate that the client gets.
    fn select_sites(&mut self) {
        let data = self.quic.crypto_session().handshake_data();
        let data = data.and_then(|data| data.downcast::<HandshakeData>().ok());
        let name = data.and_then(|data| data.server_name);
        let presented = SelectedCertificates::new(&self.certificates, name.as_deref());
        self.sites = Arc::new(self.sites.under(presented));
    }

    /// Answers the requests that have waited for the end of the handshake, in their order.
    fn answer_early(&mut self, link: &Rc<ConnectionLink>) -> Result<(), H3Error> {
        let waiting = self.streams.iter_mut();
        let waiting = waiting.filter_map(|(id, stream)| Some((*id, stream.early.take()?)));
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_unstable_by_key(|(id, _)| *id);
        for (id, head) in waiting {
            match head {
                Http3Head::Read(block) => self.answer_head(link, id, block)?,
                head @ (Http3Head::Parsed(..) | Http3Head::TooLarge) => {
                    hit::begin_task(self, link, id, head, Instant::now());
                }
            }
        }
        Ok(())
    }

    fn stream_event(
        &mut self,
        link: &Rc<ConnectionLink>,
        event: &StreamEvent,
    ) -> Result<(), H3Error> {
        match *event {
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
                Some(stream) if stream.hit.is_some() => self.read_behind_hit(&link.core, id),
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
                        // The end of the request may have arrived, too.
                        let _ = stream.behind_head(&mut self.quic, &mut self.h3.flood);
                        stream.decline_body(&mut self.quic, H3Code::NoError);
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
            return self.h3.flood.reset();
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
                return self.answer_head(link, id, block);
            }
            Ok(StreamInput::HeadTooLarge) => {
                stream.head_until = None;
                hit::refuse_head(self, link, id);
            }
            Ok(StreamInput::Blocked | StreamInput::Data(_) | StreamInput::End) => {
                // Frames of QUIC without a byte cost as much as those that bring one.
                self.h3.flood.idle(1)?;
                if !self.hold_memory() {
                    self.reject(core, id);
                }
            }
            Err(failure) => return self.stream_failed(core, id, failure),
        }
        core.spare.return_block(block);
        Ok(())
    }

    /// Begins to answer a request whose head is complete.
    fn answer_head(
        &mut self,
        link: &Rc<ConnectionLink>,
        id: StreamId,
        block: Block,
    ) -> Result<(), H3Error> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        let is_sized = h2::fields_of(&block).any(|(name, _)| name == b"content-length");
        let behind = if is_sized {
            stream.behind_sized_head(&mut self.quic)
        } else {
            stream.behind_head(&mut self.quic, &mut self.h3.flood)
        };
        match behind {
            Ok(behind) => hit::answer(self, link, id, block, behind),
            Err(failure) => return self.stream_failed(&link.core, id, failure),
        }
        Ok(())
    }

    /// Reads what follows the head of a request that was answered at once. A body does not change the response.
    fn read_behind_hit(&mut self, core: &Core, id: StreamId) -> Result<(), H3Error> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        match stream.behind_head(&mut self.quic, &mut self.h3.flood) {
            Ok(BehindHead::End) => Ok(()),
            Ok(BehindHead::Nothing) => self.h3.flood.idle(1),
            Ok(BehindHead::Body) => {
                stream.decline_body(&mut self.quic, H3Code::NoError);
                Ok(())
            }
            Err(failure) => self.stream_failed(core, id, failure),
        }
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
                let stream = self.streams.remove(&id);
                if let Some(mut hit) = stream.and_then(|stream| stream.hit) {
                    hit.record(core, true);
                }
                Ok(())
            }
            StreamFailure::Error(error) => Err(error),
        }
    }

    fn read_uni(&mut self, id: StreamId) -> Result<(), H3Error> {
        let number = VarInt::from(id).into_inner();
        let mut is_empty = true;
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
                Err(quinn_proto::ReadError::Blocked) if is_empty => return self.h3.flood.idle(1),
                Err(quinn_proto::ReadError::Blocked) => return Ok(()),
            };
            is_empty = false;
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
}
