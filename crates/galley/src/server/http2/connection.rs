//! The task of one HTTP/2 connection. In each round it reads what has arrived, answers the hits, and lets the library write
//! its frames.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use galley_http::frame_interceptor::{FrameError, Intercepted};
use h2::Reason;
use h2::server;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use super::super::socket::Unsent;
use super::deadlines::{self, ConnectionDeadlines, ConnectionTimeout};
use super::ending::{Http2End, ended, finish, reason, why};
use super::exchange::{self, StreamRequest};
use super::greeting::greet;
use super::hit::{self, HeadContext, HitBuffers, SentHit, StreamLookup};
use super::ledger::Flood;
use super::limits;
use super::parsed::ParsedStreams;
use super::quota::{self, Quota};
use super::wire::{FramedSocket, Half};
use crate::request::Sites;
use crate::server::Core;
use crate::server::endpoints::Endpoints;
use crate::server::timer::{Deadline, Timer};
use crate::telemetry::http2::Http2EndReason;

/// Serves an HTTP/2 connection to its end.
pub(in crate::server) async fn connection<S: AsyncRead + AsyncWrite + Unsent + Unpin>(
    core: Rc<Core>,
    stream: S,
    sites: Arc<Sites>,
    endpoints: Endpoints,
) {
    resumed(core, stream, &BytesMut::new(), sites, endpoints).await;
}

/// As [`connection`], for a connection of which `begun` has already been read.
pub(in crate::server) async fn resumed<S: AsyncRead + AsyncWrite + Unsent + Unpin>(
    core: Rc<Core>,
    stream: S,
    begun: &BytesMut,
    sites: Arc<Sites>,
    endpoints: Endpoints,
) {
    let most = limits::header_list(core.limits.head_bytes);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let wire = Rc::new(RefCell::new(FramedSocket::new(stream, begun, &core, most)));
    let timer = core.timers.register();
    let end = match greet(&core, &wire, &timer).await {
        Ok(h2) => {
            let connection = Http2Connection {
                deadlines: ConnectionDeadlines::new(&core.limits),
                h2,
                wire: Rc::clone(&wire),
                timer: &timer,
                armed: None,
                streams: JoinSet::new(),
                quota: Quota::new(&core.services.http2_memory),
                hit_buffers: HitBuffers::default(),
                sent: Vec::new(),
                parsed: ParsedStreams::default(),
                requests: 0,
                passed: 0,
                accepted: 0,
                is_library_busy: true,
                going: false,
                core: &core,
                sites,
                endpoints,
            };
            connection.run().await
        }
        Err(end) => end,
    };
    finish(&core, &wire, &timer, endpoints, end).await;
}

/// A connection after the exchange of connection prefaces.
struct Http2Connection<'c, S> {
    h2: server::Connection<Half<S>, Bytes>,
    wire: Rc<RefCell<FramedSocket<S>>>,
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
    passed: u64,
    /// The number of requests that the library has returned.
    accepted: u64,
    /// Whether the library has work, or may have.
    is_library_busy: bool,
    /// Whether a GOAWAY frame was sent or is queued.
    going: bool,
    core: &'c Rc<Core>,
    sites: Arc<Sites>,
    endpoints: Endpoints,
}

impl<S: AsyncRead + AsyncWrite + Unsent + Unpin> Http2Connection<'_, S> {
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
        if self.core.stopping.get() && !self.going {
            self.go();
        }
        loop {
            if let Poll::Ready(end) = self.turn(cx) {
                return Poll::Ready(end);
            }
            let armed = self.wait();
            let armed = std::mem::replace(&mut self.armed, armed);
            if self.timer.poll_late(cx).is_pending() {
                return Poll::Pending;
            }
            if self.core.stopping.get() && !self.going {
                self.go();
                continue;
            }
            // The round may have stopped the clock.
            let is_due = armed.is_some_and(|at| self.timer.is_past(at));
            let arrived = || self.wire.borrow().arrived();
            match self.deadlines.late(self.timer, arrived) {
                // Other connections need the memory of the responses that this client does not read.
                None | Some(ConnectionTimeout::Taken) if self.quota.is_overdrawn() => {
                    let why =
                        Http2End::Ours(Http2EndReason::Slow, "too much data waits for the client");
                    return self.abort(cx, Reason::ENHANCE_YOUR_CALM, why);
                }
                None if is_due => {}
                // Other connections need its memory, or it has been idle for too long.
                None | Some(ConnectionTimeout::Idle) if !self.going => self.go(),
                None | Some(ConnectionTimeout::Taken) => {}
                Some(ConnectionTimeout::Idle | ConnectionTimeout::Going) => {
                    return Poll::Ready(Http2End::Done);
                }
                Some(ConnectionTimeout::Head) => {
                    return Poll::Ready(Http2End::Ours(
                        Http2EndReason::Slow,
                        "the client sent a head too slowly",
                    ));
                }
                Some(ConnectionTimeout::Taking) => {
                    let why = Http2End::Ours(Http2EndReason::Slow, "the client received nothing");
                    return self.abort(cx, Reason::ENHANCE_YOUR_CALM, why);
                }
            }
        }
    }

    /// Announces that no further streams are accepted (RFC 9113 section 6.8).
    fn go(&mut self) {
        self.going = true;
        self.is_library_busy = true;
        self.h2.graceful_shutdown();
    }

    /// Does everything that is possible without waiting.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<Http2End> {
        let mut answered = 0;
        loop {
            while let Poll::Ready(Some(_)) = self.streams.poll_join_next(cx) {}
            let read = self.read(cx);
            let flood = self.flood();
            if let Some(flood) = flood {
                return self.abort(
                    cx,
                    Reason::ENHANCE_YOUR_CALM,
                    Http2End::Ours(Http2EndReason::Flood, flood.word()),
                );
            }
            let is_read = match read {
                Poll::Ready(Ok(())) => true,
                Poll::Pending => false,
                Poll::Ready(Err(Http2ReadError::Gone)) => return Poll::Ready(Http2End::Gone),
                Poll::Ready(Err(Http2ReadError::Broken(broken))) => {
                    return self.abort(cx, reason(broken), ended(broken));
                }
            };
            answered += self.sent.len();
            if !self.sent.is_empty() {
                // The library's frames follow when the hits have been sent.
                match ready!(self.send_hits(cx)) {
                    Ok(()) => {}
                    Err(_) => return Poll::Ready(Http2End::Gone),
                }
            }
            if self.has_library_work() {
                match self.accept(cx) {
                    Accepted::End(end) => return Poll::Ready(end),
                    Accepted::Some(requests) => {
                        answered += requests.len();
                        self.begin(requests);
                        if answered < MOST_ANSWERED {
                            // The library has not processed its new input yet.
                            continue;
                        }
                    }
                    Accepted::None => self.look_at_library(),
                }
            }
            let mut wire = self.wire.borrow_mut();
            match wire.poll_out(cx) {
                Poll::Ready(Err(_)) => return Poll::Ready(Http2End::Gone),
                Poll::Ready(Ok(())) if answered >= MOST_ANSWERED => {
                    // A client that sends requests without end must not delay the other connections of its core.
                    cx.waker().wake_by_ref();
                }
                Poll::Ready(Ok(())) => {
                    let is_held = wire.take_held();
                    let has_more = is_held || wire.has_through();
                    if is_read || has_more {
                        continue;
                    }
                }
                Poll::Pending => {}
            }
            return Poll::Pending;
        }
    }

    /// The flood that the ledger has detected, including starved streams.
    fn flood(&self) -> Option<Flood> {
        let starved = self.quota.take_starved();
        let mut wire = self.wire.borrow_mut();
        if starved > 0 {
            let now_ms = self.core.timers.now_ms();
            wire.ledger.starve(starved, now_ms);
        }
        wire.ledger.flood()
    }

    /// Closes the connection with `reason`. The GOAWAY frame is sent only if the socket accepts it at once.
    fn abort(&mut self, cx: &mut Context<'_>, reason: Reason, end: Http2End) -> Poll<Http2End> {
        self.h2.abrupt_shutdown(reason);
        let _ = self.h2.poll_closed(cx);
        let _ = self.wire.borrow_mut().poll_out(cx);
        Poll::Ready(end)
    }

    /// Reads what has arrived, and looks up hits. Ready if input arrived or was left over from the last round.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Http2ReadError>> {
        let mut wire = self.wire.borrow_mut();
        if !self.sent.is_empty() || !wire.has_room() || wire.is_clogged() {
            return Poll::Pending;
        }
        if !wire.has_unsorted() {
            ready!(wire.poll_fill(cx)).map_err(|_| Http2ReadError::Gone)?;
        }
        let mut encoded = self.core.spare.take_encoded();
        let mut block = self.core.spare.take_block();
        let began = Instant::now();
        let mut bytes = 0;
        let result = loop {
            if self.sent.len() >= MOST_ANSWERED || bytes > wire.most_out() || wire.is_clogged() {
                break Ok(());
            }
            match wire.sort(&mut block) {
                Ok(Intercepted::More) => break Ok(()),
                Err(broken) => break Err(Http2ReadError::Broken(broken)),
                Ok(Intercepted::Head(opening)) => {
                    self.requests += 1;
                    let may = self.core.limits.fast_path
                        && !self.going
                        && wire.may_respond(&opening, &block);
                    let found = if may {
                        let context = HeadContext {
                            core: self.core,
                            sites: &self.sites,
                            endpoints: self.endpoints,
                            began,
                            window: wire.window(),
                        };
                        hit::find(&context, &mut self.hit_buffers, &block, &mut encoded)
                    } else {
                        StreamLookup::Nothing
                    };
                    match found {
                        StreamLookup::Hit(found) if wire.take_window(found.body_bytes()) => {
                            bytes += found.body_bytes();
                            let read = std::mem::replace(&mut block, self.core.spare.take_block());
                            self.sent.push(found.on(&opening, read, began));
                            continue;
                        }
                        StreamLookup::Parsed(request, urgency) if self.parsed.has_capacity() => {
                            wire.pass_stub(&opening);
                            self.parsed.push(opening.stream, request, urgency);
                        }
                        _ => wire.pass(&opening, &block),
                    }
                    self.passed += u64::from(opening.is_new);
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
            wire.write_response(stream, head, body);
        }
        self.core.spare.give_block(block);
        self.core.spare.give_encoded(encoded);
        Poll::Ready(result)
    }

    /// Sends the hits, and writes their access records once all have been sent.
    fn send_hits(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.wire.borrow_mut().poll_out(cx))?;
        for sent in self.sent.drain(..) {
            sent.close(self.core, false);
        }
        Poll::Ready(Ok(()))
    }

    fn has_library_work(&self) -> bool {
        let wire = self.wire.borrow();
        self.is_library_busy || wire.has_through() || wire.is_ended()
    }

    /// Determines whether the library has to be polled although it has no input.
    fn look_at_library(&mut self) {
        let has_streams = self.h2.has_streams() || !self.streams.is_empty();
        self.is_library_busy = has_streams || self.going;
        if !has_streams {
            self.wire.borrow_mut().library_rests();
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
                    if self.accepted == self.passed {
                        return Accepted::Some(requests);
                    }
                }
                Poll::Ready(Some(Err(error))) => return Accepted::End(why(&error)),
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
            self.wire.borrow_mut().rest();
        }
        let wire = self.wire.borrow();
        self.deadlines.look(
            self.timer,
            &deadlines::ConnectionActivity {
                has_streams,
                has_tasks,
                is_mid_head: wire.ledger.is_mid_head(),
                is_writing: !wire.is_empty(),
                is_waiting: self.quota.is_waiting(),
                requests: self.requests,
                going: self.going,
            },
            || wire.arrived(),
        );
        let mut next = self.deadlines.next();
        if self.quota.is_waiting() {
            let soon = self.timer.deadline(QUOTA_EVERY);
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
    Gone,
    Broken(FrameError),
}

/// The interval at which a connection with waiting responses is checked for exceeding its share of the memory.
const QUOTA_EVERY: Duration = Duration::from_secs(1);

/// The maximum number of requests in one round, except those of the last read.
const MOST_ANSWERED: usize = 100;
