//! How hyper's server reads a stream of requests, to be compared with how we read it.

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

/// A request whose body was read to its end.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub method: String,
    pub target: Uri,
    /// Names in lower case, sorted by name.
    pub fields: Vec<(String, Vec<u8>)>,
    pub body: Bytes,
}

/// The requests whose bodies hyper read to the end.
pub fn read_with_hyper(stream: &[u8]) -> Vec<Seen> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let seen = Rc::new(RefCell::new(Vec::new()));
    runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let service = service_fn(|request| answer(request, Rc::clone(&seen)));
        let served = hyper::server::conn::http1::Builder::new()
            .half_close(true)
            .serve_connection(TokioIo::new(server), service);
        let client = async {
            client.write_all(stream).await.unwrap();
            client.shutdown().await.unwrap();
            let mut answers = Vec::new();
            client.read_to_end(&mut answers).await.unwrap();
        };
        // An error of the server is its refusal; what it had read by then counts.
        let _ = tokio::join!(served, client).0;
    });
    seen.take()
}

async fn answer(
    request: hyper::Request<Incoming>,
    seen: Rc<RefCell<Vec<Seen>>>,
) -> Result<hyper::Response<Empty<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let mut fields: Vec<_> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect();
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    if let Ok(body) = body.collect().await {
        seen.borrow_mut().push(Seen {
            method: head.method.to_string(),
            target: head.uri,
            fields,
            body: body.to_bytes(),
        });
    }
    // Not a success: after one hyper would take CONNECT for a tunnel.
    let mut response = hyper::Response::new(Empty::new());
    *response.status_mut() = http::StatusCode::NOT_FOUND;
    Ok(response)
}
