//! Parses a stream of requests with hyper's server, for comparison with Galley.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use bytes::Bytes;
use http::Uri;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A request that hyper read to the end of its body.
#[derive(Debug, PartialEq, Eq)]
pub struct HyperRequest {
    pub method: String,
    pub target: Uri,
    /// Names in lower case, sorted by name.
    pub fields: Vec<(String, Vec<u8>)>,
    pub body: Bytes,
}

/// The requests that hyper reads to the end of their bodies.
pub fn read_with_hyper(stream: &[u8]) -> Vec<HyperRequest> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let requests = Rc::new(RefCell::new(Vec::new()));
    runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let service = service_fn(|request| record(request, Rc::clone(&requests)));
        let served = hyper::server::conn::http1::Builder::new()
            .half_close(true)
            .serve_connection(TokioIo::new(server), service);
        let client = async {
            client.write_all(stream).await.unwrap();
            client.shutdown().await.unwrap();
            let mut responses = Vec::new();
            client.read_to_end(&mut responses).await.unwrap();
        };
        // An error of the server means that it rejects the rest; the requests before count.
        let _ = tokio::join!(served, client).0;
    });
    requests.take()
}

async fn record(
    request: hyper::Request<Incoming>,
    requests: Rc<RefCell<Vec<HyperRequest>>>,
) -> Result<hyper::Response<Empty<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let mut fields: Vec<_> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect();
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    if let Ok(body) = body.collect().await {
        requests.borrow_mut().push(HyperRequest {
            method: head.method.to_string(),
            target: head.uri,
            fields,
            body: body.to_bytes(),
        });
    }
    // After a successful response to CONNECT, hyper would start a tunnel.
    let mut response = hyper::Response::new(Empty::new());
    *response.status_mut() = http::StatusCode::NOT_FOUND;
    Ok(response)
}
