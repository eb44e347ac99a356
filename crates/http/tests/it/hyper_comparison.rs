//! hyper's server reads the same streams: what we accept it must read as the same requests, and where we refuse and it
//! does not, the corpus says which part of the RFC allows that.

use http::Uri;
use proptest::prelude::*;

use crate::corpus::{Hyper, cases};
use crate::peer::{Seen, read_with_hyper};
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
                let is_strict = matches!(ours.end, End::Refused(_) | End::Closed);
                assert!(is_strict, "{}", case.name);
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
    // hyper ignores a `Connection` with a byte outside ASCII as a whole; to us each of its options counts (RFC 9110 section
    // 7.6.1), `close` and `keep-alive` among them. Nothing behind can be compared.
    if let Some(at) = ours.requests.iter().position(has_unreadable_connection) {
        ours.requests.truncate(at + 1);
        return assert_same_prefix(&ours, &read_with_hyper(stream));
    }
    let theirs = read_with_hyper(stream);
    assert_same_prefix(&ours, &theirs);
    // hyper reads on behind a CONNECT that was refused; we do not.
    let is_connect = |request: &Request| request.method == "CONNECT";
    let ends_by_connect = ours.requests.last().is_some_and(is_connect);
    if !matches!(ours.end, End::Refused(_)) && !ends_by_connect {
        assert_eq!(
            theirs.len(),
            ours.requests.len(),
            "{}",
            stream.escape_ascii()
        );
    }
}

fn has_unreadable_connection(request: &Request) -> bool {
    let mut fields = request.fields.iter();
    fields.any(|(name, value)| name == "connection" && !value.is_ascii())
}

#[test]
fn an_option_beside_unreadable_bytes_counts() {
    for (stream, requests) in [
        (
            "GET / HTTP/1.1\r\nHost: a\r\nConnection:\u{e9} x, CLOSE,y\r\nConnection: keep-alive\r\n\r\n\
             GET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
            1,
        ),
        (
            "GET / HTTP/1.0\r\nConnection: \u{e9}, keep-alive\r\n\r\nGET /2 HTTP/1.0\r\n\r\n",
            2,
        ),
    ] {
        assert_eq!(read_whole(stream.as_bytes()).requests.len(), requests);
        assert_read_alike(stream.as_bytes());
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
