//! Compares parsing with hyper's server: requests that Galley accepts must be the same in hyper. If Galley rejects a stream that
//! hyper accepts, the corpus names the part of the RFC that permits it.

use http::Uri;
use proptest::prelude::*;

use crate::corpus::{Hyper, cases};
use crate::hyper_reader::{HyperRequest, read_with_hyper};
use crate::properties::{assembled, mutated};
use crate::reader::{ParsedRequest, ParsedStream, StreamEnd, read_whole};

#[test]
fn hyper_agrees_except_for_the_differences_in_the_corpus() {
    let mut differences = Vec::new();
    for case in cases() {
        let ours = read_whole(&case.stream);
        let theirs = read_with_hyper(&case.stream);
        assert_same_prefix(&ours, &theirs);
        let reads_more = theirs.len() > ours.requests.len();
        let is_expected = match case.hyper {
            Hyper::Same => !reads_more,
            Hyper::Laxer(allowed) => {
                assert!(allowed.starts_with("RFC "), "{}", case.name);
                let is_strict = matches!(ours.end, StreamEnd::Rejected(_) | StreamEnd::Closed);
                assert!(is_strict, "{}", case.name);
                reads_more
            }
        };
        if !is_expected {
            differences.push(format!("{}: hyper reads {}", case.name, theirs.len()));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

proptest! {
    #[test]
    fn hyper_agrees_on_mutated_streams(stream in mutated()) {
        assert_hyper_agrees(&stream);
    }

    #[test]
    fn hyper_agrees_on_assembled_streams(stream in assembled()) {
        assert_hyper_agrees(&stream);
    }
}

/// Checks that hyper reads the same requests, and as many unless Galley rejects the stream.
fn assert_hyper_agrees(stream: &[u8]) {
    let mut ours = read_whole(stream);
    // hyper's URI type accepts fewer bytes than RFC 9112 permits (`<`, a backtick in the path). The requests after a target that
    // it rejects cannot be compared.
    let readable = |request: &ParsedRequest| Uri::try_from(&request.target).is_ok();
    if let Some(at) = ours.requests.iter().position(|request| !readable(request)) {
        ours.requests.truncate(at);
        let theirs = read_with_hyper(stream);
        return assert_same_prefix(&ours, &theirs);
    }
    // hyper ignores the entire `Connection` field if it contains a byte outside ASCII; Galley uses each of its options (RFC 9110
    // section 7.6.1), including `close` and `keep-alive`. The requests after it cannot be compared.
    if let Some(at) = ours.requests.iter().position(has_unreadable_connection) {
        ours.requests.truncate(at + 1);
        return assert_same_prefix(&ours, &read_with_hyper(stream));
    }
    let theirs = read_with_hyper(stream);
    assert_same_prefix(&ours, &theirs);
    // hyper continues after a rejected CONNECT; Galley does not.
    let is_connect = |request: &ParsedRequest| request.method == "CONNECT";
    let ends_by_connect = ours.requests.last().is_some_and(is_connect);
    if !matches!(ours.end, StreamEnd::Rejected(_)) && !ends_by_connect {
        assert_eq!(
            theirs.len(),
            ours.requests.len(),
            "{}",
            stream.escape_ascii()
        );
    }
}

fn has_unreadable_connection(request: &ParsedRequest) -> bool {
    let mut fields = request.fields.iter();
    fields.any(|(name, value)| name == "connection" && !value.is_ascii())
}

#[test]
fn connection_options_next_to_non_ascii_bytes_count() {
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
        assert_hyper_agrees(stream.as_bytes());
    }
}

fn assert_same_prefix(ours: &ParsedStream, theirs: &[HyperRequest]) {
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
