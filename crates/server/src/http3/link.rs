//! A connection as its endpoint and the tasks of its requests share it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use galley_http::h3::H3Error;
use quinn_proto::{ConnectionHandle, StreamId};
use tokio::sync::Notify;

use super::state::Http3State;
use super::streams::{BehindHead, StreamFailure};
use crate::Core;
use crate::accept::{CountedConnection, connection_slot};
use crate::http2::quota::Quota;
use crate::timer::Timer;
use galley_access::ConnectionSlot;
use galley_request::Sites;

/// The connections of an endpoint that have work for it.
#[derive(Default)]
pub(super) struct WakeList {
    handles: RefCell<VecDeque<ConnectionHandle>>,
    /// Whether the endpoint works, and will look before it waits.
    is_attended: Cell<bool>,
    notify: Notify,
}

impl WakeList {
    /// Waits until there are some. Cancel-safe.
    pub(super) async fn any(&self) {
        self.notify.notified().await;
    }

    /// Takes the one that waits longest.
    pub(super) fn pop(&self) -> Option<ConnectionHandle> {
        self.handles.borrow_mut().pop_front()
    }

    /// The number of connections.
    pub(super) fn len(&self) -> usize {
        self.handles.borrow().len()
    }

    /// Notes whether the endpoint works.
    pub(super) fn set_attended(&self, is_attended: bool) {
        self.is_attended.set(is_attended);
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.handles.borrow().is_empty()
    }
}

/// A connection. It counts among those of its core until the last of its tasks has ended.
pub(super) struct ConnectionLink {
    pub(super) core: Rc<Core>,
    pub(super) handle: ConnectionHandle,
    pub(super) state: RefCell<Http3State>,
    pub(super) quota: Rc<Quota>,
    pub(super) timer: Timer,
    /// The slot of the client, once its address is validated.
    slot: RefCell<Option<ConnectionSlot>>,
    wakes: Rc<WakeList>,
    is_woken: Cell<bool>,
    _counted: CountedConnection,
}

impl ConnectionLink {
    pub(super) fn new(
        core: &Rc<Core>,
        handle: ConnectionHandle,
        state: Http3State,
        wakes: &Rc<WakeList>,
    ) -> Rc<Self> {
        Rc::new(Self {
            core: Rc::clone(core),
            handle,
            state: RefCell::new(state),
            quota: Quota::new(&core.services.http2_memory),
            timer: core.timers.register(),
            slot: RefCell::new(None),
            wakes: Rc::clone(wakes),
            is_woken: Cell::new(false),
            _counted: CountedConnection::begin(core),
        })
    }

    /// Counts the connection among those of its client, whose address is validated. False: the client has too many.
    pub(super) fn take_slot(&self, client: SocketAddr, sites: &Sites) -> bool {
        let mut slot = self.slot.borrow_mut();
        if slot.is_none() {
            *slot = connection_slot(&self.core, client, sites.proxies());
        }
        slot.is_some()
    }

    /// Makes the endpoint attend to the connection.
    pub(super) fn wake(&self) {
        if !self.is_woken.replace(true) {
            self.wakes.handles.borrow_mut().push_back(self.handle);
            if !self.wakes.is_attended.get() {
                self.wakes.notify.notify_one();
            }
        }
    }

    /// The endpoint attends to the connection now.
    pub(super) fn attended(&self) {
        self.is_woken.set(false);
    }
}

/// The stream of a request, for the task that answers it. Dropping it resets the stream unless its response has ended.
pub(super) struct StreamHandle {
    pub(super) link: Rc<ConnectionLink>,
    pub(super) id: StreamId,
}

impl StreamHandle {
    /// The next part of the body; `None` at the end.
    pub(super) fn poll_body(&self, cx: &Context<'_>) -> Poll<Result<Option<Bytes>, StreamFailure>> {
        let polled = self.link.state.borrow_mut().poll_body(self.id, cx);
        // The client may get a larger window, or an error.
        self.link.wake();
        polled
    }

    /// Whether a body follows the head or not, once that is known. Only if the head announces no length.
    pub(super) fn poll_behind_head(
        &self,
        cx: &Context<'_>,
    ) -> Poll<Result<BehindHead, StreamFailure>> {
        let polled = self.link.state.borrow_mut().poll_behind_head(self.id, cx);
        self.link.wake();
        polled
    }

    /// Whether the body has ended, as far as is known.
    pub(super) fn is_body_ended(&self) -> bool {
        self.link.state.borrow().is_body_ended(self.id)
    }

    /// Appends bytes to the output of the stream; `is_last` ends it.
    pub(super) fn send(&self, bytes: Bytes, is_last: bool) -> Result<(), StreamFailure> {
        let sent = self.link.state.borrow_mut().send(self.id, bytes, is_last);
        self.link.wake();
        sent
    }

    /// Ready when all output was accepted and the client permits more.
    pub(super) fn poll_room(&self, cx: &Context<'_>) -> Poll<Result<(), StreamFailure>> {
        self.link.state.borrow_mut().poll_room(self.id, cx)
    }

    /// Ready when the client has cancelled the request, or the connection has ended.
    pub(super) fn poll_closed(&self, cx: &Context<'_>) -> Poll<()> {
        self.link.state.borrow_mut().poll_closed(self.id, cx)
    }

    /// Sets the urgency of the response, from 0 to 7.
    pub(super) fn set_urgency(&self, urgency: u8) {
        self.link.state.borrow_mut().set_urgency(self.id, urgency);
    }

    /// Announces the length of the body. Must be called before [`StreamHandle::poll_body`].
    pub(super) fn expect_body(&self, length: u64) {
        self.link.state.borrow_mut().expect_body(self.id, length);
    }

    /// Ends the stream, or the connection, with an error.
    pub(super) fn fail(&self, error: H3Error) {
        let mut state = self.link.state.borrow_mut();
        match error {
            H3Error::Stream(code) => state.reset(self.id, code),
            H3Error::Connection(_) => state.failure = Some(error),
        }
        self.link.wake();
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.link.state.borrow_mut().release(self.id);
        self.link.wake();
    }
}
