//! Header fields with their own grammar.

use std::time::{Duration, SystemTime};

use galley_policy::cache_control::CacheControl;
use galley_policy::conditional::{self, Validators};
use galley_policy::encoding::{AcceptedCodings, Coding};
use galley_policy::no_vary_search::Variance;
use galley_policy::range::{self, Ranges};
use galley_policy::request_info::{RequestInfo, RequestLineInfo, Scheme};
use galley_policy::site::{Policy, TtlTable};
use galley_policy::vary::Vary;
use galley_policy::{compress, fragments as page_fragments, tags as page_tags, time};
use http::{HeaderMap, HeaderName, HeaderValue};

/// A selected coding is an accepted one.
pub fn accept_encoding(data: &[u8]) {
    let mut codings = AcceptedCodings::default();
    for line in data.split(|byte| *byte == b'\n') {
        codings.read(line);
    }
    if let Some(best) = codings.best(&Coding::BY_DENSITY) {
        assert!(codings.accepts(best));
    }
}

/// Evaluates each conditional field for the same page.
pub fn conditions(data: &[u8]) {
    let names = [
        "If-None-Match",
        "If-Match",
        "If-Modified-Since",
        "If-Unmodified-Since",
        "If-Range",
    ];
    let site = Policy {
        ttl: TtlTable::default(),
        ..Policy::rfc9111()
    };
    let validators = Validators {
        etag: Some(b"\"a\""),
        last_modified: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)),
    };
    for name in names {
        let mut info = RequestInfo::default();
        let line = RequestLineInfo {
            method: "GET",
            target: b"/",
            scheme: Scheme::Http,
            host: "site.test",
            has_body: false,
            upgrade: false,
            country: None,
        };
        if info.parse(&line, [(name, data)].into_iter(), &site).is_ok() {
            let _ = conditional::evaluate(&info, &validators);
            let _ = conditional::evaluate_stored(&info, &validators);
        }
    }
    let _ = conditional::range_applies(Some(data), &validators);
    let _ = compress::live::plain_tags(data);
}

/// Ranges are within the body, in order, and not adjacent.
pub fn range(data: &[u8]) {
    let Some((&length, value)) = data.split_first() else {
        return;
    };
    let length = u64::from(length);
    match range::parse(value, length) {
        Ranges::Whole | Ranges::Unsatisfiable => {}
        Ranges::One(span) => assert!(span.start < span.end && span.end <= length),
        Ranges::Many(spans) => {
            assert!(spans.len() >= 2);
            assert!(
                spans
                    .iter()
                    .all(|span| span.start < span.end && span.end <= length)
            );
            assert!(spans.windows(2).all(|two| two[0].end < two[1].start));
        }
    }
    if let Some(content_range) = range::held(value) {
        assert!(content_range.span.start < content_range.span.end);
        assert!(
            content_range
                .complete
                .is_none_or(|complete| content_range.span.end <= complete)
        );
    }
}

/// A parsed date can be written and parsed back unchanged.
pub fn date(data: &[u8]) {
    let Some(date) = time::parse_date(data) else {
        return;
    };
    let mut out = Vec::new();
    time::write_date(date, &mut out);
    if date >= SystemTime::UNIX_EPOCH {
        assert_eq!(time::parse_date(&out), Some(date), "{}", out.escape_ascii());
    }
}

/// An additional line can only add restrictions.
pub fn cache_control(data: &[u8]) {
    let lines = || data.split(|byte| *byte == b'\n');
    let one = CacheControl::parse(lines());
    let more = CacheControl::parse(lines().chain([&b"no-store, private"[..]]));
    assert!(more.no_store && more.private);
    assert!(!one.no_cache || more.no_cache);
    let _ = CacheControl::parse_surrogate(lines());
    let _ = CacheControl::parse_targeted(lines());
    let _ = CacheControl::parse_surrogate_for(&lines().collect::<Vec<_>>(), b"galley");
}

/// Names are sorted and unique.
pub fn vary(data: &[u8]) {
    let names = Vary::parse(data.split(|byte| *byte == b'\n')).names();
    assert!(
        names
            .windows(2)
            .all(|two| two[0].as_str() < two[1].as_str())
    );
}

/// Equivalence is reflexive and symmetric.
pub fn no_vary_search(data: &[u8]) {
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let Some(variance) = lines.next().and_then(Variance::parse) else {
        return;
    };
    let (one, other) = (lines.next(), lines.next());
    assert!(variance.are_equivalent(one, one));
    assert_eq!(
        variance.are_equivalent(one, other),
        variance.are_equivalent(other, one)
    );
}

/// Tags of a response: as many IDs as names, in order, within the limit.
pub fn tags(data: &[u8]) {
    let mut fields = HeaderMap::new();
    for (at, line) in data.split(|byte| *byte == b'\n').take(20).enumerate() {
        let name = page_tags::TAG_FIELDS[at % page_tags::TAG_FIELDS.len()];
        if let Ok(value) = HeaderValue::from_bytes(line) {
            fields.append(HeaderName::from_static(name), value.clone());
            fields.append("cache-groups", value.clone());
            fields.append("galley-purge", value);
        }
    }
    let tags = page_tags::collect(&fields);
    assert!(tags.ids.len() <= page_tags::MAX_TAGS && tags.ids.len() == tags.names.len());
    assert!(tags.ids.windows(2).all(|two| two[0] < two[1]));
    let _ = page_tags::invalidated_groups(&fields);
    let _ = galley_policy::purge::from_response(&fields, &Policy::default());
    let _ = galley_policy::purge::receipts(&fields).count();
}

/// Fragments of a response are in ascending order, do not overlap, and are within the limits.
pub fn fragments(data: &[u8]) {
    let mut fields = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(80) {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            fields.append(page_fragments::FRAGMENT, value.clone());
            fields.append("galley-fragment-except", value);
        }
    }
    let _ = page_fragments::exceptions(&fields);
    let Ok(parts) = page_fragments::parse(&fields) else {
        return;
    };
    assert!(parts.len() <= page_fragments::MAX_FRAGMENTS);
    for part in &parts {
        assert!(part.start.checked_add(part.length).is_some());
        assert!(part.tags.ids.len() == part.tags.names.len());
    }
    for two in parts.windows(2) {
        assert!(two[0].start + two[0].length <= two[1].start);
    }
}
