//! The task of one HTTP/2 connection. In each scheduling slice it reads the received bytes, answers the hits, and lets the
//! library write its frames.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use galley_http::frame_interceptor::{FrameError, InterceptorOutput};
use galley_http::head::Version;
use h2::Reason;
use h2::server;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use super::super::socket::UnacknowledgedBytes;
use super::deadlines::{self, ConnectionDeadlines, ConnectionTimeout};
use super::ending::{Http2End, finish, frame_error_end, frame_error_reason, library_end};
use super::exchange::{self, StreamRequest};
use super::flood::FrameKind;
use super::framed_socket::{FramedSocket, LibraryIo};
use super::hit::{Hpack, MAX_BODY, SentHit};
use super::limits;
use super::parsed::ParsedStreams;
use super::preface::exchange_prefaces;
use super::quota::{self, Quota};
use crate::Core;
use crate::endpoints::Endpoints;
use crate::stream_hit::{self, HeadContext, HitBuffers, StreamLookup};
use crate::timer::{Deadline, Timer};
use galley_request::Sites;
use galley_telemetry::http2::Http2EndReason;

/// Serves an HTTP/2 connection to its end.
pub(crate) async fn connection<S: AsyncRead + AsyncWrite + UnacknowledgedBytes + Unpin>(
    core: Rc<Core>,
    stream: S,
    sites: Arc<Sites>,
    endpoints: Endpoints,
) {
    resumed(core, stream, &BytesMut::new(), sites, endpoints).await;
}

/// As [`connection`], for a connection of which `begun` has already been read.
pub(crate) async fn resumed<S: AsyncRead + AsyncWrite + UnacknowledgedBytes + Unpin>(
    core: Rc<Core>,
    stream: S,
    begun: &BytesMut,
    sites: Arc<Sites>,
    endpoints: Endpoints,
) {
    let most = limits::header_list(core.limits.head_bytes);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let socket = Rc::new(RefCell::new(FramedSocket::new(stream, begun, &core, most)));
    let timer = core.timers.register();
    let end = match exchange_prefaces(&core, &socket, &timer).await {
        Ok(h2) => {
            let connection = Http2Connection {
                deadlines: ConnectionDeadlines::new(&core.limits),
                h2,
                socket: Rc::clone(&socket),
                timer: &timer,
                armed: None,
                streams: JoinSet::new(),
                quota: Quota::new(&core.services.http2_memory),
                hit_buffers: HitBuffers::default(),
                sent: Vec::new(),
                parsed: ParsedStreams::default(),
                requests: 0,
                passed_to_library: 0,
                accepted: 0,
                is_library_busy: true,
                is_closing: false,
                core: &core,
                sites,
                endpoints,
            };
            connection.run().await
        }
        Err(end) => end,
    };
    finish(&core, &socket, &timer, endpoints, end).await;
}

/// A connection after the exchange of connection prefaces.
struct Http2Connection<'c, S> {
    h2: server::Connection<LibraryIo<S>, Bytes>,
    socket: Rc<RefCell<FramedSocket<S>>>,
    timer: &'c Timer,
    deadlines: ConnectionDeadlines,
    /// The deadline to which the timer is set.
    armed: Option<Deadline>,
    streams: JoinSet<()>,
    quota: Rc<Quota>,
    hit_buffers: HitBuffers,
    /// Hits that are being sent.
    sent: Vec<SentHit>,
    /// Requests that the fast path has parsed, until the library returns their streams.
    parsed: ParsedStreams,
    /// The number of heads that were received.
    requests: u64,
    /// The number of heads that were passed to the library.
    passed_to_library: u64,
    /// The number of requests that the library has returned.
    accepted: u64,
    /// Whether the library has work, or may have.
    is_library_busy: bool,
    /// Whether a GOAWAY frame was sent or is queued.
    is_closing: bool,
    core: &'c Rc<Core>,
    sites: Arc<Sites>,
    endpoints: Endpoints,
}

impl<S: AsyncRead + AsyncWrite + UnacknowledgedBytes + Unpin> Http2Connection<'_, S> {
    async fn run(mut self) -> Http2End {
        let end = poll_fn(|cx| self.poll(cx)).await;
        let Self {
            h2,
            mut streams,
            sent,
            core,
            ..
        } = self;
        for sent in sent {
            sent.close(core, true);
        }
        // Dropping it notifies every stream that the connection has ended; each then writes its access record.
        drop(h2);
        while streams.join_next().await.is_some() {}
        end
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Http2End> {
        if self.core.stopping.get() && !self.is_closing {
            self.send_goaway();
        }
        loop {
            if let Poll::Ready(end) = self.run_slice(cx) {
                return Poll::Ready(end);
            }
            let armed = self.wait();
            let armed = std::mem::replace(&mut self.armed, armed);
            if self.timer.poll_late(cx).is_pending() {
                return Poll::Pending;
            }
            if self.core.stopping.get() && !self.is_closing {
                self.send_goaway();
                continue;
            }
            // The slice may have stopped the clock.
            let is_due = armed.is_some_and(|at| self.timer.is_past(at));
            let arrived = || self.socket.borrow().arrived();
            match self.deadlines.late(self.timer, arrived) {
                // Other connections need the memory of the responses that this client does not read.
                None | Some(ConnectionTimeout::Received) if self.quota.is_overdrawn() => {
                    let why = Http2End::ByGalley(
                        Http2EndReason::Slow,
                        "too much data waits for the client",
                    );
                    return self.abort(cx, Reason::ENHANCE_YOUR_CALM, why);
                }
                None if is_due => {}
                // Other connections need its memory, or it has been idle for too long.
                None | Some(ConnectionTimeout::Idle) if !self.is_closing => self.send_goaway(),
                None | Some(ConnectionTimeout::Received) => {}
                Some(ConnectionTimeout::Idle | ConnectionTimeout::Closing) => {
                    return Poll::Ready(Http2End::Done);
                }
                Some(ConnectionTimeout::Head) => {
                    return Poll::Ready(Http2End::ByGalley(
                        Http2EndReason::Slow,
                        "the client sent a head too slowly",
                    ));
                }
                Some(ConnectionTimeout::NotReceiving) => {
                    let why =
                        Http2End::ByGalley(Http2EndReason::Slow, "the client received nothing");
                    return self.abort(cx, Reason::ENHANCE_YOUR_CALM, why);
                }
            }
        }
    }

    /// Announces that no further streams are accepted (RFC 9113 section 6.8).
    fn send_goaway(&mut self) {
        self.is_closing = true;
        self.is_library_busy = true;
        self.h2.graceful_shutdown();
    }

    /// Does everything that is possible without waiting.
    fn run_slice(&mut self, cx: &mut Context<'_>) -> Poll<Http2End> {
        let mut responses = 0;
        loop {
            while let Poll::Ready(Some(_)) = self.streams.poll_join_next(cx) {}
            let may_read = self.may_read();
            let read = if may_read {
                self.read(cx)
            } else {
                Poll::Pending
            };
            let flood = self.flood();
            if let Some(flood) = flood {
                return self.abort(
                    cx,
                    Reason::ENHANCE_YOUR_CALM,
                    Http2End::ByGalley(Http2EndReason::Flood, flood.word()),
                );
            }
            let is_read = match read {
                Poll::Ready(Ok(())) => true,
                Poll::Pending => false,
                Poll::Ready(Err(Http2ReadError::ClientGone)) => {
                    return Poll::Ready(Http2End::ClientGone);
                }
                Poll::Ready(Err(Http2ReadError::Frame(error))) => {
                    return self.abort(cx, frame_error_reason(error), frame_error_end(error));
                }
            };
            responses += self.sent.len();
            if !self.sent.is_empty() {
                // The library's frames follow when the hits have been sent.
                match ready!(self.send_hits(cx)) {
                    Ok(()) => {}
                    Err(_) => return Poll::Ready(Http2End::ClientGone),
                }
            }
            if self.has_library_work() {
                match self.accept(cx) {
                    Accepted::End(end) => return Poll::Ready(end),
                    Accepted::Some(requests) => {
                        responses += requests.len();
                        self.begin(requests);
                        if responses < MAX_RESPONSES {
                            // The library has not processed its new input yet.
                            continue;
                        }
                    }
                    Accepted::None => self.check_library(),
                }
            }
            let sent = self.socket.borrow_mut().poll_out(cx);
            match sent {
                Poll::Ready(Err(_)) => return Poll::Ready(Http2End::ClientGone),
                Poll::Ready(Ok(())) if responses >= MAX_RESPONSES => {
                    // A client that sends requests without end must not delay the other connections of its core.
                    cx.waker().wake_by_ref();
                }
                Poll::Ready(Ok(())) => {
                    // Requests may be left over, and nothing wakes this task for input that was not waited for.
                    let is_readable_again = !may_read && self.may_read();
                    let mut socket = self.socket.borrow_mut();
                    let was_blocked = socket.take_blocked();
                    let has_more = was_blocked || socket.has_library_input();
                    if is_read || is_readable_again || has_more {
                        continue;
                    }
                }
                Poll::Pending => {}
            }
            return Poll::Pending;
        }
    }

    /// The detected flood, including starved streams.
    fn flood(&self) -> Option<FrameKind> {
        let starved = self.quota.take_starved_count();
        let mut socket = self.socket.borrow_mut();
        if starved > 0 {
            let now_ms = self.core.timers.now_ms();
            socket.floods.starve(starved, now_ms);
        }
        socket.floods.flood()
    }

    /// Closes the connection with `reason`. The GOAWAY frame is sent only if the socket accepts it at once.
    fn abort(&mut self, cx: &mut Context<'_>, reason: Reason, end: Http2End) -> Poll<Http2End> {
        self.h2.abrupt_shutdown(reason);
        let _ = self.h2.poll_closed(cx);
        let _ = self.socket.borrow_mut().poll_out(cx);
        Poll::Ready(end)
    }

    /// Whether there is room for the responses to further requests.
    fn may_read(&self) -> bool {
        let socket = self.socket.borrow();
        self.sent.is_empty() && socket.has_capacity() && !socket.is_library_behind()
    }

    /// Reads the received bytes, and looks up hits. Ready if input arrived or was left over from the last slice.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Http2ReadError>> {
        let mut socket = self.socket.borrow_mut();
        if !socket.has_unprocessed() {
            ready!(socket.poll_fill(cx)).map_err(|_| Http2ReadError::ClientGone)?;
        }
        let mut encoded = self.core.spare.take_encoded();
        let mut block = self.core.spare.take_block();
        let began = Instant::now();
        let mut bytes = 0;
        let result = loop {
            if self.sent.len() >= MAX_RESPONSES
                || bytes > socket.max_output()
                || socket.is_library_behind()
            {
                break Ok(());
            }
            match socket.intercept(&mut block) {
                Ok(InterceptorOutput::More) => break Ok(()),
                Err(error) => break Err(Http2ReadError::Frame(error)),
                Ok(InterceptorOutput::Head(opening)) => {
                    self.requests += 1;
                    let may_respond = self.core.limits.fast_path
                        && !self.is_closing
                        && socket.may_respond(&opening, &block);
                    let found = if may_respond {
                        let context = HeadContext {
                            core: self.core,
                            sites: &self.sites,
                            endpoints: self.endpoints,
                            began,
                            most: socket.window().min(MAX_BODY),
                            version: Version::H2,
                        };
                        stream_hit::find::<Hpack>(
                            &context,
                            &mut self.hit_buffers,
                            &block,
                            &mut encoded,
                        )
                    } else {
                        StreamLookup::Nothing
                    };
                    match found {
                        StreamLookup::Hit(found) if socket.take_window(found.body_bytes()) => {
                            bytes += found.body_bytes();
                            let read = std::mem::replace(&mut block, self.core.spare.take_block());
                            self.sent.push(SentHit::on(found, &opening, read, began));
                            continue;
                        }
                        StreamLookup::Parsed(request, urgency) if self.parsed.has_capacity() => {
                            socket.pass_stub(&opening);
                            self.parsed.push(opening.stream, request, urgency);
                        }
                        _ => socket.pass(&opening, &block),
                    }
                    self.passed_to_library += u64::from(opening.is_new);
                    self.is_library_busy = true;
                }
            }
        };
        // Requests that arrived together are answered in the order of their urgency, and otherwise in the order of arrival.
        if !self.sent.is_sorted_by_key(SentHit::urgency) {
            self.sent.sort_by_key(SentHit::urgency);
        }
        for sent in &self.sent {
            let (stream, head, body) = sent.parts(&encoded);
            socket.write_response(stream, head, body);
        }
        self.core.spare.return_block(block);
        self.core.spare.return_encoded(encoded);
        Poll::Ready(result)
    }

    /// Sends the hits, and writes their access records once all have been sent.
    fn send_hits(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.socket.borrow_mut().poll_out(cx))?;
        for sent in self.sent.drain(..) {
            sent.close(self.core, false);
        }
        Poll::Ready(Ok(()))
    }

    fn has_library_work(&self) -> bool {
        let socket = self.socket.borrow();
        self.is_library_busy || socket.has_library_input() || socket.is_ended()
    }

    /// Determines whether the library has to be polled although it has no input.
    fn check_library(&mut self) {
        let has_streams = self.h2.has_streams() || !self.streams.is_empty();
        self.is_library_busy = has_streams || self.is_closing;
        if !has_streams {
            self.socket.borrow_mut().library_rests();
        }
    }

    /// Returns the requests of the library, and lets it write all its frames to the output buffer.
    fn accept(&mut self, cx: &mut Context<'_>) -> Accepted {
        let mut requests = Vec::new();
        let mut began = None;
        loop {
            match self.h2.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    let (parts, body) = request.into_parts();
                    let (head, parsed) = self.parsed.take(parts, &respond);
                    requests.push(StreamRequest {
                        head,
                        parsed,
                        body,
                        respond,
                        began: *began.get_or_insert_with(Instant::now),
                    });
                    self.accepted += 1;
                    // Each poll makes the library go through all its work. It is polled again after the responses.
                    if self.accepted == self.passed_to_library {
                        return Accepted::Some(requests);
                    }
                }
                Poll::Ready(Some(Err(error))) => return Accepted::End(library_end(&error)),
                Poll::Ready(None) => return Accepted::End(Http2End::Done),
                Poll::Pending if requests.is_empty() => return Accepted::None,
                Poll::Pending => return Accepted::Some(requests),
            }
        }
    }

    fn begin(&mut self, mut requests: Vec<StreamRequest>) {
        requests.sort_by_key(|request| request.head.urgency());
        for mut request in requests {
            let Some(held) = self.quota.admit(request.head.field_bytes()) else {
                // The client may send it again (RFC 9113 section 8.7). It has no access record, as streams that the library
                // refuses.
                request.respond.send_reset(Reason::REFUSED_STREAM);
                continue;
            };
            let (core, sites) = (Rc::clone(self.core), Arc::clone(&self.sites));
            let task = exchange::run(core, sites, self.endpoints, request, held);
            debug_assert!(size_of_val(&task) as u64 <= quota::RESPONSE_BYTES);
            self.streams.spawn_local(task);
        }
    }

    /// Sets the timer to the next deadline.
    fn wait(&mut self) -> Option<Deadline> {
        let has_tasks = !self.streams.is_empty();
        let has_streams = self.is_library_busy && (has_tasks || self.h2.has_streams());
        if !has_streams {
            self.socket.borrow_mut().release_buffers();
        }
        let socket = self.socket.borrow();
        self.deadlines.update(
            self.timer,
            &deadlines::ConnectionActivity {
                has_streams,
                has_tasks,
                is_mid_head: socket.floods.is_mid_head(),
                is_writing: !socket.is_empty(),
                is_waiting: self.quota.is_waiting(),
                requests: self.requests,
                is_closing: self.is_closing,
            },
            || socket.arrived(),
        );
        let mut next = self.deadlines.next();
        if self.quota.is_waiting() {
            let soon = self.timer.deadline(QUOTA_CHECK_INTERVAL);
            next = Some(next.map_or(soon, |next| next.min(soon)));
        }
        self.timer.arm(next, !has_streams);
        next
    }
}

/// The result of polling the library.
enum Accepted {
    None,
    Some(Vec<StreamRequest>),
    End(Http2End),
}

/// Why reading failed.
enum Http2ReadError {
    /// The client has disconnected.
    ClientGone,
    Frame(FrameError),
}

/// The interval at which a connection with waiting responses is checked for exceeding its share of the memory.
const QUOTA_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum number of requests in one scheduling slice, except those of the last read.
const MAX_RESPONSES: usize = 100;
