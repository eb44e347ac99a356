//! Answers of upstreams after their head was read, and bodies that plugins send.

use std::time::{Duration, SystemTime};

use galley_http::response::HeadCheck;
use galley_policy::purge::Dialect;
use galley_policy::request_info::{RequestInfo, RequestLineInfo, Scheme};
use galley_policy::site::{Policy, TtlTable};
use galley_policy::storable::{self, ResponseHead, Storability};
use http::StatusCode;

/// A head of an answer: what is stored has no cookie of a person, and what travels on frames nothing.
pub fn upstream_answer(data: &[u8]) {
    let Ok((status, fields)) = galley_policy::cgi::answer(data) else {
        return;
    };
    let bare = Policy {
        ttl: TtlTable::default(),
        ..Policy::rfc9111()
    };
    for site in [Policy::default(), bare] {
        let mut facts = RequestInfo::default();
        let line = RequestLineInfo {
            method: "GET",
            target: b"/a?b=c",
            scheme: Scheme::Http,
            host: "site.test",
            has_body: false,
            upgrade: false,
            country: None,
        };
        facts
            .parse(&line, std::iter::empty::<(&str, &[u8])>(), &site)
            .expect("a plain request");
        let answer = ResponseHead {
            status,
            fields: &fields,
            response_delay: Duration::from_secs(1),
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        };
        if let Storability::Store(_) = storable::judge(&facts, &answer, &site) {
            assert!(!fields.contains_key("set-cookie"));
            assert_ne!(status, StatusCode::NOT_MODIFIED);
        }
        let _ = storable::judge_body(&answer, &site, data);
        for name in storable::forwarded_fields(&fields).keys() {
            assert!(
                !["connection", "transfer-encoding", "keep-alive", "upgrade"]
                    .contains(&name.as_str())
            );
        }
        let _ = storable::stored_fields(&fields, &site, None);
        let _ = storable::updated_fields(&fields, &fields);
        if let Some(location) = fields.get("location") {
            let _ = storable::resolve(&facts, location.as_bytes(), &site);
        }
    }
}

/// A response's head as bytes of an HTTP upstream: the verdict does not depend on how it was cut into reads.
pub fn upstream_head(data: &[u8]) {
    let (cut, bytes) = data.split_first().unwrap_or((&1, data));
    let mut whole = HeadCheck::new();
    let at_once = whole.push(bytes);
    let mut pieces = HeadCheck::new();
    let in_pieces = bytes
        .chunks(usize::from(*cut).max(1))
        .try_for_each(|piece| pieces.push(piece));
    assert_eq!(at_once, in_pieces);
    assert_eq!(whole.is_over(), pieces.is_over());
}

/// The JSON of plugins that purge by batch.
pub fn contract(data: &[u8]) {
    let requests: [(&[u8], &[(&str, &[u8])]); 2] = [
        (
            b"/souin-api/souin",
            &[("content-type", b"application/json")],
        ),
        (
            b"/service/x/purge",
            &[("fastly-key", b"x"), ("content-type", b"application/json")],
        ),
    ];
    let site = Policy::default();
    for (target, fields) in requests {
        let line = RequestLineInfo {
            method: "POST",
            target,
            scheme: Scheme::Http,
            host: "site.test",
            has_body: true,
            upgrade: false,
            country: None,
        };
        let fields = || fields.iter().copied();
        let mut facts = RequestInfo::default();
        facts
            .parse(&line, fields(), &site)
            .expect("a plain request");
        if let Some(dialect) = Dialect::of(&facts, fields(), &site) {
            let _ = dialect.purges(&facts, fields(), data, &site);
        }
    }
}
