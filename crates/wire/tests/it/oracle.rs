//! hyper's server reads the same streams: what we accept it must read as the same requests, and where we refuse and it
//! does not, the corpus says which part of the RFC allows that.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use bytes::Bytes;
use http::Uri;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::corpus::{Hyper, cases};
use crate::properties::{assembled, mutated};
use crate::reader::{End, Reading, Request, read_whole};

#[test]
fn hyper_agrees_or_the_corpus_says_why_not() {
    let mut complaints = Vec::new();
    for case in cases() {
        let ours = read_whole(&case.stream);
        let theirs = read_with_hyper(&case.stream);
        assert_same_prefix(&ours, &theirs);
        let more = theirs.len() > ours.requests.len();
        let fits = match case.hyper {
            Hyper::Same => !more,
            Hyper::Laxer(allowed) => {
                assert!(allowed.starts_with("RFC "), "{}", case.name);
                assert!(matches!(ours.end, End::Refused(_)), "{}", case.name);
                more
            }
        };
        if !fits {
            complaints.push(format!("{}: hyper reads {}", case.name, theirs.len()));
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

proptest! {
    #[test]
    fn mutated_corpus_is_read_alike(stream in mutated()) {
        assert_read_alike(&stream);
    }

    #[test]
    fn assembled_streams_are_read_alike(stream in assembled()) {
        assert_read_alike(&stream);
    }
}

/// What we accept, hyper reads as the same; what we do not refuse, it splits into as many requests.
fn assert_read_alike(stream: &[u8]) {
    let mut ours = read_whole(stream);
    // The URI type of hyper's requests knows fewer bytes than RFC 9112 lets through to the router (`<`, a backtick in the
    // path); where it refuses a target, nothing behind can be compared.
    let readable = |request: &Request| Uri::try_from(&request.target).is_ok();
    if let Some(at) = ours.requests.iter().position(|request| !readable(request)) {
        ours.requests.truncate(at);
        let theirs = read_with_hyper(stream);
        return assert_same_prefix(&ours, &theirs);
    }
    let theirs = read_with_hyper(stream);
    assert_same_prefix(&ours, &theirs);
    if !matches!(ours.end, End::Refused(_)) {
        assert_eq!(
            theirs.len(),
            ours.requests.len(),
            "{}",
            stream.escape_ascii()
        );
    }
}

fn assert_same_prefix(ours: &Reading, theirs: &[Seen]) {
    assert!(
        theirs.len() >= ours.requests.len(),
        "hyper reads fewer requests: {theirs:#?}, ours: {ours:#?}"
    );
    for (our, their) in ours.requests.iter().zip(theirs) {
        assert_eq!(our.method, their.method);
        assert_eq!(Uri::try_from(&our.target).unwrap(), their.target);
        assert_eq!(our.fields, their.fields);
        assert_eq!(our.body, their.body);
    }
}

#[derive(Debug)]
struct Seen {
    method: String,
    target: Uri,
    fields: Vec<(String, Vec<u8>)>,
    body: Bytes,
}

/// The requests whose bodies hyper read to the end.
fn read_with_hyper(stream: &[u8]) -> Vec<Seen> {
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
