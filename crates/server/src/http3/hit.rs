//! The beginning of a response: a hit is answered by the endpoint itself, everything else by a task.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use galley_http::h3::{self, OpenHeaders};
use galley_http::head::Version;
use galley_http::hpack::Block;
use http::StatusCode;
use quinn_proto::StreamId;

use super::clocks::Http3Stage;
use super::exchange::{self, RequestPlace};
use super::link::{ConnectionLink, StreamHandle};
use super::request_head::Http3Head;
use super::sending_hit::SendingHit;
use super::state::Http3State;
use super::streams::BehindHead;
use crate::Core;
use crate::stream_hit::{self, HeadCoding, HeadContext, StreamLookup};

/// The coding of heads over HTTP/3.
struct Qpack(OpenHeaders);

impl HeadCoding for Qpack {
    fn begin(out: &mut Vec<u8>, status: StatusCode) -> Self {
        let frame = h3::begin_headers(out);
        h3::write_status(out, status);
        Self(frame)
    }

    fn field(&self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        h3::write_field(out, name, value);
    }

    fn lines(&self, out: &mut Vec<u8>, lines: &[u8]) {
        h3::write_lines(out, lines);
    }

    fn end(self, out: &mut Vec<u8>) {
        h3::end_headers(out, self.0);
    }
}

/// Begins the response to the request on a stream, whose head is in `block`. A hit waits neither to learn whether a body follows, nor
/// for the end of the handshake.
pub(super) fn answer(
    state: &mut Http3State,
    link: &Rc<ConnectionLink>,
    id: StreamId,
    block: Block,
    behind: BehindHead,
) {
    let core = &link.core;
    let began = Instant::now();
    if behind == BehindHead::Body || !core.limits.fast_path || core.stopping.get() {
        return begin_task(state, link, id, Http3Head::Read(block), began);
    }
    let mut encoded = core.spare.take_encoded();
    let context = HeadContext {
        core,
        sites: &state.sites,
        endpoints: state.endpoints,
        began,
        most: usize::MAX,
        version: Version::H3,
    };
    let found = stream_hit::find::<Qpack>(&context, &mut state.hit_buffers, &block, &mut encoded);
    match found {
        StreamLookup::Hit(hit) => {
            let urgency = hit.urgency;
            let body = hit.shared_body();
            if !body.is_empty() {
                h3::write_data_head(&mut encoded, body.len() as u64);
            }
            let head = Bytes::copy_from_slice(&encoded);
            send(
                state,
                core,
                id,
                [head, body],
                SendingHit {
                    hit,
                    block: Some(block),
                    began,
                },
            );
            state.set_urgency(id, urgency);
        }
        StreamLookup::Parsed(request, urgency)
            if behind == BehindHead::End && state.stage != Http3Stage::Handshake =>
        {
            core.spare.return_block(block);
            state.set_urgency(id, urgency);
            let head = Http3Head::Parsed(request.head, request.parsed);
            begin_task(state, link, id, head, began);
        }
        // The upstream gets a body that may follow, so it is parsed again then. So is a request that waits for the handshake.
        StreamLookup::Parsed(..) | StreamLookup::Nothing => {
            begin_task(state, link, id, Http3Head::Read(block), began);
        }
    }
    core.spare.return_encoded(encoded);
}

/// Responds to a request whose head is too large.
pub(super) fn refuse_head(state: &mut Http3State, link: &Rc<ConnectionLink>, id: StreamId) {
    begin_task(state, link, id, Http3Head::TooLarge, Instant::now());
}

fn send(state: &mut Http3State, core: &Core, id: StreamId, output: [Bytes; 2], hit: SendingHit) {
    let Some(stream) = state.streams.get_mut(&id) else {
        return;
    };
    let [head, body] = output;
    let bytes = body.len();
    stream.push(head, false);
    stream.push(body, true);
    stream.hit = Some(hit);
    state.h3.flood.sent(bytes);
    state.flush(core, id);
    let is_waiting = |hit: &SendingHit| hit.block.is_some();
    let stream = state.streams.get(&id);
    let waits = stream.and_then(|stream| stream.hit.as_ref());
    if waits.is_some_and(is_waiting) && !state.hold_memory() {
        state.reject(core, id);
    }
}

/// Lets a task answer a request. One that came in early data waits until the handshake is complete: until then somebody else may have
/// repeated it (RFC 8470 section 3).
pub(super) fn begin_task(
    state: &mut Http3State,
    link: &Rc<ConnectionLink>,
    id: StreamId,
    head: Http3Head,
    began: Instant,
) {
    if state.stage == Http3Stage::Handshake {
        if let Some(stream) = state.streams.get_mut(&id) {
            stream.early = Some(head);
        }
        if !state.hold_memory() {
            state.reject(&link.core, id);
        }
        return;
    }
    let held = link.quota.admit(head.bytes());
    let Some(held) = held.filter(|_| state.hold_memory()) else {
        return state.reject(&link.core, id);
    };
    let Some(stream) = state.streams.get_mut(&id) else {
        return;
    };
    stream.has_task = true;
    let place = RequestPlace {
        sites: Arc::clone(&state.sites),
        endpoints: state.endpoints,
        began,
    };
    let stream = StreamHandle {
        link: Rc::clone(link),
        id,
    };
    tokio::task::spawn_local(exchange::run(place, head, stream, held));
}
