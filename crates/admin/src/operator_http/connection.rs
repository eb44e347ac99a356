//! One connection: a request, its response, and the deadlines of both.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tower_service::Service;

use super::listener::{OperatorStream, Peer};
use super::table::{ConnectionPlace, Step};

/// How requests of a connection are answered.
pub(super) struct ConnectionCall {
    pub(super) router: Router,
    pub(super) peer: Peer,
    pub(super) response_time: Option<Duration>,
}

/// Serves a connection until it ends, a step takes too long, or another connection takes its place.
pub(super) async fn serve(
    stream: OperatorStream,
    place: Arc<ConnectionPlace>,
    call: ConnectionCall,
    mut retiring: watch::Receiver<bool>,
) {
    let service = service_fn(|request| answer(&call, Arc::clone(&place), request));
    let mut builder = http1::Builder::new();
    // The table has the deadlines of all steps.
    builder.header_read_timeout(None);
    builder.keep_alive(false);
    builder.max_buf_size(MAX_HEAD);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut overdue = pin!(place.overdue());
    let retires = async move {
        // Without a sender nothing is served any more.
        let _ = retiring.wait_for(|retiring| *retiring).await;
    };
    tokio::select! {
        // The client has gone, or has sent no HTTP.
        _ = &mut connection => return,
        () = &mut overdue => return,
        () = retires => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        _ = connection => {}
        () = overdue => {}
    }
}

async fn answer(
    call: &ConnectionCall,
    place: Arc<ConnectionPlace>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    place.begin(Step::Receiving, Some(BODY_TIME));
    let received = Arc::clone(&place);
    let mut request = request.map(|body| {
        Body::new(OperatorBody {
            body,
            place: received,
        })
    });
    request.extensions_mut().insert(call.peer);
    let response = call.router.clone().call(request).await;
    place.begin(Step::Sending, call.response_time);
    response
}

/// The body of a request. When it is dropped, the request has been received, or is not read any further.
struct OperatorBody {
    body: Incoming,
    place: Arc<ConnectionPlace>,
}

impl HttpBody for OperatorBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for OperatorBody {
    fn drop(&mut self) {
        self.place.begin(Step::Answering, None);
    }
}

/// How long a client may take to send the head of its request.
pub(super) const HEAD_TIME: Duration = Duration::from_secs(10);

/// How long a client may take to send the body of its request, of at most a megabyte.
const BODY_TIME: Duration = Duration::from_secs(20);

/// The maximum size of a request's head, in bytes.
const MAX_HEAD: usize = 16 * 1024;
