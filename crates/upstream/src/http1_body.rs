//! Bodies over HTTP/1.1 in both directions, and the return of the connection to the idle ones after a response.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use galley_cache::fill::FillError;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming as HyperBody, SizeHint};
use hyper::client::conn::http1::SendRequest;

use super::idle::IdleConnections;
use super::strict::HeadWatch;
use crate::body::RequestBodyReader;
use crate::body::streamed_body::UploadPace;

/// A connection, and the state of the next response head on it.
pub(super) struct BodyConnection {
    pub(super) sender: SendRequest<HyperRequestBody>,
    pub(super) watch: Arc<HeadWatch>,
}

pub(super) struct HttpShared {
    pub(super) idle: Rc<IdleConnections<BodyConnection>>,
    /// The number of exchanges whose response has not begun.
    pub(super) unanswered: Cell<usize>,
}

impl HttpShared {
    fn release(&self, server: usize, connection: BodyConnection, all: &Arc<AtomicUsize>) {
        if self.unanswered.get() == 0 && !connection.sender.is_closed() {
            self.idle.put_back(server, connection, all);
        }
    }
}

/// The body of a response in progress.
pub(super) struct HttpBody {
    pub(super) body: HyperBody,
    /// The connection, with the index of its server.
    pub(super) connection: Option<(usize, BodyConnection)>,
    /// Whether more bytes than the announced length were received.
    pub(super) is_excessive: bool,
    /// The number of idle connections to that server, over all pools.
    pub(super) all_idle: Arc<AtomicUsize>,
    /// The maximum time between two pieces.
    pub(super) read_timeout: Duration,
    /// The progress of the request's own body.
    pub(super) upload: UploadPace,
    pub(super) shared: Rc<HttpShared>,
}

impl HttpBody {
    /// The next piece. `announced`: the length of the body, if the head states it.
    pub(super) async fn chunk(
        &mut self,
        announced: Option<u64>,
    ) -> Result<Option<Bytes>, FillError> {
        loop {
            let next = self.upload.within(self.read_timeout, self.body.frame());
            let frame = match next.await {
                Err(_elapsed) => return Err(FillError::Timeout),
                Ok(None) => {
                    // The connection cannot be reused if a part of the request was not sent.
                    let connection = self.connection.take();
                    let received = connection.as_ref().map(|(_, one)| one.watch.after_head());
                    self.is_excessive |= announced < received && announced.is_some();
                    // The rest of an excessive response could be taken for the next one.
                    if let Some((server, connection)) = connection
                        && !self.upload.is_unfinished()
                        && !self.is_excessive
                    {
                        let idle = &self.all_idle;
                        self.shared.release(server, connection, idle);
                    }
                    return Ok(None);
                }
                Ok(Some(Err(_))) => return Err(FillError::Closed),
                Ok(Some(Ok(frame))) => frame,
            };
            // Trailers are dropped: RFC 9110 §6.5.1 forbids merging unknown ones.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

/// The body of a request, for hyper.
pub(super) struct HyperRequestBody {
    pub(super) reader: RequestBodyReader,
    /// `None`: the end of the reader is the end of the body.
    pub(super) length: Option<u64>,
}

impl Body for HyperRequestBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.reader
            .poll_chunk(cx)
            .map(|chunk| chunk.transpose().map(|c| c.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.length == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}
