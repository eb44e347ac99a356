//! One HTTP/2 connection: many streams, one task that drives them, few writes.
//!
//! Frames, header compression and windows are the `h2` crate's; what may be asked of it is in [`limits`], what it does not
//! count is in [`ledger`]. A request becomes the head that HTTP/1 has ([`request`]); from there on there is nothing of HTTP/2
//! in it. Hits are answered in the connection's own turn ([`hit`]), everything else in a task for each stream
//! ([`exchange`], [`answer`]).
//!
//! A turn: take in what has come, answer the hits among it in the order of their urgency (RFC 9218), let the library put all
//! frames that it has into one buffer, and write that ([`wire`]). Between streams that have something to send the library goes
//! round, a frame each.

mod answer;
mod exchange;
mod hit;
mod ledger;
mod limits;
mod patience;
mod payload;
mod request;
mod wire;

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use h2::Reason;
use h2::server::{self, Builder};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use self::answer::{Manner, Sending};
use self::exchange::Asked;
use self::hit::{Memo, Sent, Tried};
use self::ledger::PREFACE;
use self::patience::{Patience, Waiting};
use self::payload::{Payload, Whole};
use self::wire::{Half, Wire};
use super::Core;
use super::h1::Ends;
use super::io::Wire as PlainWire;
use super::timer::Timer;
use crate::serve::Sites;
use crate::telemetry::http2::Ended;

/// Serves a connection whose client speaks HTTP/2, to its end.
pub(super) async fn connection<S: AsyncRead + AsyncWrite + Unpin>(
    core: Rc<Core>,
    stream: S,
    sites: Arc<Sites>,
    ends: Ends,
) {
    resumed(core, (stream, BytesMut::new()), sites, ends).await;
}

/// The same where some bytes have been read already.
pub(super) async fn resumed<S: AsyncRead + AsyncWrite + Unpin>(
    core: Rc<Core>,
    (stream, begun): (S, BytesMut),
    sites: Arc<Sites>,
    ends: Ends,
) {
    let of_core = (Rc::clone(&core.timers), Rc::clone(&core.spare));
    let wire = Rc::new(RefCell::new(Wire::new(stream, begun, of_core)));
    let timer = core.timers.register();
    let end = match greet(&core, &wire, &timer).await {
        Ok(h2) => {
            let connection = Connection {
                patience: Patience::new(&core.limits),
                h2,
                wire: Rc::clone(&wire),
                timer: &timer,
                streams: JoinSet::new(),
                memo: Memo::default(),
                sent: Vec::new(),
                accepted: 0,
                going: false,
                core: &core,
                sites,
                ends,
            };
            connection.run().await
        }
        Err(end) => end,
    };
    finish(&core, &wire, &timer, ends, end).await;
}

/// Whether a connection in the clear begins with the greeting of HTTP/2 (RFC 9113 section 3.4).
pub(super) async fn is_greeted(core: &Core, wire: &mut PlainWire) -> bool {
    let deadline = wire.timer.deadline(core.limits.head_timeout);
    while wire.input.len() < PREFACE.len() {
        if !PREFACE.starts_with(&wire.input) || wire.fill_before(deadline).await.is_err() {
            return false;
        }
    }
    wire.input.starts_with(PREFACE)
}

/// How a connection ended.
enum End {
    /// Both sides are done.
    Done,
    /// The client has gone, or cannot be written to.
    Gone,
    /// We have ended it.
    Ours(Ended, &'static str),
}

/// Exchanges the greetings.
async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
    core: &Core,
    wire: &Rc<RefCell<Wire<S>>>,
    timer: &Timer,
) -> Result<server::Connection<Half<S>, Payload>, End> {
    let builder: Builder = limits::builder(&core.limits);
    let mut handshake = pin!(builder.handshake(Half(Rc::clone(wire))));
    let greeting = poll_fn(|cx| {
        let polled = handshake.as_mut().poll(cx);
        match wire.borrow_mut().poll_out(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Ready(Ok(())) | Poll::Pending => polled.map_err(Greeting::from),
        }
    });
    match timer.within(core.limits.head_timeout, greeting).await {
        Ok(Ok(h2)) => Ok(h2),
        Ok(Err(Greeting::Broken)) => Err(End::Gone),
        Ok(Err(Greeting::Wrong)) => Err(End::Ours(Ended::Protocol, "no greeting")),
        Err(_) => Err(End::Ours(Ended::Slow, "no greeting in time")),
    }
}

enum Greeting {
    Broken,
    Wrong,
}

impl From<io::Error> for Greeting {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

impl From<h2::Error> for Greeting {
    fn from(error: h2::Error) -> Self {
        if error.is_io() {
            Self::Broken
        } else {
            Self::Wrong
        }
    }
}

/// Tells about the end, and lets what was written last arrive.
async fn finish<S: AsyncRead + AsyncWrite + Unpin>(
    core: &Core,
    wire: &Rc<RefCell<Wire<S>>>,
    timer: &Timer,
    ends: Ends,
    end: End,
) {
    let tally = wire.borrow().ledger.tally;
    let ours = match end {
        End::Ours(ended, note) => {
            let (streams, resets) = (tally.streams, tally.resets_by_client);
            let made = tally.resets_by_galley;
            tracing::debug!(client = %ends.client, streams, resets, made, note, "an HTTP/2 connection was ended");
            if ended == Ended::Flood && core.services.http2_floods.admit() {
                tracing::warn!(client = %ends.client, streams, resets, made, note, "an HTTP/2 connection was ended");
            }
            Some(ended)
        }
        End::Done | End::Gone => None,
    };
    core.counters.http2(&tally, ours);
    if matches!(end, End::Gone | End::Ours(Ended::Slow, _)) {
        return;
    }
    let mut drained = 0;
    let leaving = poll_fn(|cx| {
        let mut wire = wire.borrow_mut();
        match wire.poll_shutdown(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            Poll::Pending => return Poll::Pending,
        }
        // Closing with unread bytes makes the kernel send a reset, which can overtake what was written last.
        while let Poll::Ready(read) = wire.poll_drain(cx) {
            drained += read.as_ref().copied().unwrap_or_default();
            if !matches!(read, Ok(1..)) || drained > LINGER_BYTES {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    });
    let _ = timer.within(patience::LINGER, leaving).await;
}

/// A connection whose greetings were exchanged.
struct Connection<'c, S> {
    h2: server::Connection<Half<S>, Payload>,
    wire: Rc<RefCell<Wire<S>>>,
    timer: &'c Timer,
    patience: Patience,
    streams: JoinSet<()>,
    memo: Memo,
    /// Hits on their way.
    sent: Vec<Sent>,
    /// Requests that the library gave out.
    accepted: u64,
    /// The client was told that no further streams are wanted.
    going: bool,
    core: &'c Rc<Core>,
    sites: Arc<Sites>,
    ends: Ends,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<'_, S> {
    async fn run(mut self) -> End {
        let end = poll_fn(|cx| self.poll(cx)).await;
        let Self {
            h2,
            mut streams,
            sent,
            core,
            ..
        } = self;
        for sent in sent {
            sent.with_bytes(0).close(core, true);
        }
        // This tells every stream that it is gone; each then writes its record.
        drop(h2);
        while streams.join_next().await.is_some() {}
        end
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.core.stopping.get() && !self.going {
            self.go();
        }
        loop {
            if let Poll::Ready(end) = self.turn(cx) {
                return Poll::Ready(end);
            }
            self.wait();
            if self.timer.poll_late(cx).is_pending() {
                return Poll::Pending;
            }
            if self.core.stopping.get() && !self.going {
                self.go();
                continue;
            }
            match self.patience.late(self.timer) {
                // Others need its room, or it has asked nothing for long.
                None | Some(Waiting::Idle) if !self.going => self.go(),
                None => {}
                Some(Waiting::Idle | Waiting::Going) => return Poll::Ready(End::Done),
                Some(Waiting::Head) => {
                    return Poll::Ready(End::Ours(Ended::Slow, "a head came too slowly"));
                }
                Some(Waiting::Taking) => {
                    return Poll::Ready(End::Ours(Ended::Slow, "nothing was taken"));
                }
            }
        }
    }

    /// Says that what is under way is all (RFC 9113 section 6.8).
    fn go(&mut self) {
        self.going = true;
        self.h2.graceful_shutdown();
    }

    /// Everything that can be done without waiting.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let mut answered = 0;
        loop {
            while let Poll::Ready(Some(_)) = self.streams.poll_join_next(cx) {}
            let accepted = if answered == 0 && self.streams.is_empty() {
                self.accept_first(cx)
            } else {
                self.accept(cx)
            };
            let flood = self.wire.borrow().ledger.flood();
            if let Some(flood) = flood {
                self.h2.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                // It is put into the buffer; whether it arrives is the client's affair.
                let _ = self.h2.poll_closed(cx);
                return Poll::Ready(End::Ours(Ended::Flood, flood.word()));
            }
            match accepted {
                Accepted::End(end) => return Poll::Ready(end),
                Accepted::Some(asked) => {
                    answered += asked.len();
                    self.begin(asked);
                    if answered < MOST_ANSWERED {
                        // The library has not looked yet at what it was just given.
                        continue;
                    }
                    // Who asks without end does not starve its core's other connections.
                    cx.waker().wake_by_ref();
                }
                Accepted::None => {}
            }
            let mut wire = self.wire.borrow_mut();
            match wire.poll_out(cx) {
                Poll::Ready(Err(_)) => return Poll::Ready(End::Gone),
                Poll::Ready(Ok(())) if wire.take_held() => continue,
                Poll::Ready(Ok(())) if answered < MOST_ANSWERED => {
                    drop(wire);
                    for sent in self.sent.drain(..) {
                        sent.close(self.core, false);
                    }
                }
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            return Poll::Pending;
        }
    }

    /// The same at the beginning of a turn in which only hits can be under way.
    ///
    /// An answer wakes whoever has polled the library last, and a task that is woken in its own turn has a second turn, which
    /// costs a tenth of a hit and finds nothing. The turn polls again after its answers in any case, and is then the one to be
    /// woken.
    fn accept_first(&mut self, cx: &mut Context<'_>) -> Accepted {
        match self.accept(&mut Context::from_waker(Waker::noop())) {
            Accepted::None => self.accept(cx),
            accepted @ (Accepted::Some(_) | Accepted::End(_)) => accepted,
        }
    }

    /// The requests that have come, and all frames that there are into the buffer.
    fn accept(&mut self, cx: &mut Context<'_>) -> Accepted {
        let mut asked = Vec::new();
        let mut began = None;
        loop {
            match self.h2.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    let (parts, body) = request.into_parts();
                    asked.push(Asked {
                        parts,
                        body,
                        respond,
                        began: *began.get_or_insert_with(Instant::now),
                    });
                    self.accepted += 1;
                    // Each time it is asked, the library goes round all that it does. It is asked after the answers.
                    if self.accepted == self.wire.borrow().ledger.tally.streams {
                        return Accepted::Some(asked);
                    }
                }
                Poll::Ready(Some(Err(error))) => return Accepted::End(why(&error)),
                Poll::Ready(None) => return Accepted::End(End::Done),
                Poll::Pending if asked.is_empty() => return Accepted::None,
                Poll::Pending => return Accepted::Some(asked),
            }
        }
    }

    fn begin(&mut self, mut asked: Vec<Asked>) {
        // What was asked together is answered in the order of its urgency, and else in its own.
        asked.sort_by_key(|asked| request::urgency(&asked.parts.headers));
        let place = (&*self.sites, self.ends);
        for asked in asked {
            let core = Rc::clone(self.core);
            match hit::answer(&core, place, &mut self.memo, asked) {
                Tried::Done(sent) => self.sent.push(sent),
                Tried::Begun(sent, out, hit) => {
                    let manner = Manner {
                        timer: core.timers.register(),
                        write_timeout: core.limits.leaving.window,
                        urgency: sent.urgency(),
                        date: core.date.get(),
                    };
                    self.streams.spawn_local(async move {
                        let mut bytes = 0;
                        let mut sending = Sending { out, manner };
                        let body = Bytes::from_owner(Whole(hit));
                        let result = sending.last(body, &mut bytes).await;
                        if let Err(reason) = result {
                            sending.out.send_reset(reason);
                        }
                        sent.with_bytes(bytes).close(&core, result.is_err());
                    });
                }
                Tried::Not(asked) => {
                    let sites = Arc::clone(&self.sites);
                    self.streams
                        .spawn_local(exchange::run(core, sites, self.ends, asked));
                }
            }
        }
    }

    /// Sets the timer to what is waited for.
    fn wait(&mut self) {
        let mut wire = self.wire.borrow_mut();
        let has_streams = self.h2.has_streams() || !self.streams.is_empty();
        if !has_streams {
            wire.rest();
        }
        self.patience.look(
            self.timer,
            &patience::Sight {
                has_streams,
                has_tasks: !self.streams.is_empty(),
                is_mid_head: wire.ledger.is_mid_head(),
                is_writing: !wire.is_empty(),
                written: wire.written,
                requests: self.accepted,
                going: self.going,
            },
        );
        self.timer.arm(self.patience.next(), !has_streams);
    }
}

/// What the library had.
enum Accepted {
    None,
    Some(Vec<Asked>),
    End(End),
}

/// Why the library has ended a connection.
fn why(error: &h2::Error) -> End {
    if error.is_io() || error.is_remote() {
        return End::Gone;
    }
    match error.reason() {
        Some(Reason::ENHANCE_YOUR_CALM) => End::Ours(Ended::Flood, "the library's limits"),
        Some(Reason::NO_ERROR) | None => End::Done,
        Some(_) => End::Ours(Ended::Protocol, "the protocol was broken"),
    }
}

/// Requests of one turn, but for those of the last read.
const MOST_ANSWERED: usize = 100;

/// How many unread bytes are drained on closing.
const LINGER_BYTES: usize = 256 * 1024;
