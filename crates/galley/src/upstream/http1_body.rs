//! Bodies over HTTP/1.1, both ways, and the connection that goes back to the idle ones at the end of a response.

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
use tokio::time::timeout;

use super::idle::Idle;
use super::strict::HeadWatch;
use crate::body::SpooledBodyReader;

/// A connection, and what is known of the head that is awaited on it.
pub(super) struct Link {
    pub(super) sender: SendRequest<AskBody>,
    pub(super) watch: Arc<HeadWatch>,
}

pub(super) struct HttpShared {
    pub(super) idle: Rc<Idle<Link>>,
    /// Exchanges that have been sent and not yet answered.
    pub(super) unanswered: Cell<usize>,
}

impl HttpShared {
    fn give_back(&self, server: usize, connection: Link, all: &Arc<AtomicUsize>) {
        if self.unanswered.get() == 0 && !connection.sender.is_closed() {
            self.idle.keep(server, connection, all);
        }
    }
}

/// The body of an answer under way.
pub(super) struct HttpBody {
    pub(super) body: HyperBody,
    /// With its server's place among the servers.
    pub(super) connection: Option<(usize, Link)>,
    /// Connections to that server that anybody keeps.
    pub(super) all_idle: Arc<AtomicUsize>,
    /// The longest silence inside it.
    pub(super) read_timeout: Duration,
    pub(super) shared: Rc<HttpShared>,
}

impl HttpBody {
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, FillError> {
        loop {
            let frame = match timeout(self.read_timeout, self.body.frame()).await {
                Err(_elapsed) => return Err(FillError::Timeout),
                Ok(None) => {
                    if let Some((server, connection)) = self.connection.take() {
                        let all = &self.all_idle;
                        self.shared.give_back(server, connection, all);
                    }
                    return Ok(None);
                }
                Ok(Some(Err(_))) => return Err(FillError::Closed),
                Ok(Some(Ok(frame))) => frame,
            };
            // Trailers are dropped: RFC 9110 §6.5.1 forbids merging what we do not know.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

/// A request's body for hyper.
pub(super) struct AskBody {
    pub(super) reader: SpooledBodyReader,
    pub(super) length: u64,
}

impl Body for AskBody {
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
        self.length == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length)
    }
}
