//! Responses of upstreams, and purge bodies of plugins.

use std::time::{Duration, SystemTime};

use galley_http::response::HeadCheck;
use galley_policy::cgi::{self, CgiHead};
use galley_policy::purge::Dialect;
use galley_policy::request_info::{RequestInfo, RequestLineInfo, Scheme};
use galley_policy::site::{Policy, TtlTable};
use galley_policy::storable::{self, ResponseHead, Storability};
use http::StatusCode;

/// A stored response has no cookies, and forwarded fields contain no framing fields.
pub fn upstream_response(data: &[u8]) {
    let Ok(CgiHead { status, fields, .. }) = cgi::response(data) else {
        return;
    };
    let bare = Policy {
        ttl: TtlTable::default(),
        ..Policy::rfc9111()
    };
    for site in [Policy::default(), bare] {
        let mut info = RequestInfo::default();
        let line = RequestLineInfo {
            method: "GET",
            target: b"/a?b=c",
            scheme: Scheme::Http,
            host: "site.test",
            has_body: false,
            upgrade: false,
            country: None,
        };
        info.parse(&line, std::iter::empty::<(&str, &[u8])>(), &site)
            .expect("a plain request");
        let response = ResponseHead {
            status,
            fields: &fields,
            response_delay: Duration::from_secs(1),
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        };
        if let Storability::Store(_) = storable::judge(&info, &response, &site) {
            assert!(!fields.contains_key("set-cookie"));
            assert_ne!(status, StatusCode::NOT_MODIFIED);
        }
        let _ = storable::judge_body(&response, &site, data);
        for name in storable::forwarded_fields(&fields).keys() {
            assert!(
                !["connection", "transfer-encoding", "keep-alive", "upgrade"]
                    .contains(&name.as_str())
            );
        }
        let _ = storable::stored_fields(&fields, &site, None);
        let _ = storable::updated_fields(&fields, &fields);
        if let Some(location) = fields.get("location") {
            let _ = storable::resolve(&info, location.as_bytes(), &site);
        }
    }
}

/// The check of a response head from an HTTP upstream does not depend on how it is split into reads.
pub fn upstream_head(data: &[u8]) {
    let (size, bytes) = data.split_first().unwrap_or((&1, data));
    let mut whole = HeadCheck::new();
    let at_once = whole.push(bytes);
    let mut pieces = HeadCheck::new();
    let in_pieces = bytes
        .chunks(usize::from(*size).max(1))
        .try_fold(0, |taken, piece| {
            pieces.push(piece).map(|more| taken + more)
        });
    assert_eq!(at_once, in_pieces);
    assert_eq!(whole.is_over(), pieces.is_over());
}

/// Parses JSON of plugins that send batches of purges.
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
        let mut info = RequestInfo::default();
        info.parse(&line, fields(), &site).expect("a plain request");
        if let Some(dialect) = Dialect::of(&info, fields(), &site) {
            let _ = dialect.purges(&info, fields(), data, &site);
        }
    }
}
