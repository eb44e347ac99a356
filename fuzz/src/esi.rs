//! ESI: page bodies and the URLs in them.

use galley_http::head::{self, HeadBuffer, HeadLimits, ParsedHead};
use galley_policy::esi::target::IncludeTarget;
use galley_policy::esi::template::EsiTemplate;
use galley_policy::request_info::{RequestInfo, RequestLineInfo, Scheme};
use galley_policy::route::HostPattern;
use galley_policy::site::Policy;

/// The template is not longer than the body, and every include requests a host of the site with exactly one request.
pub fn esi(data: &[u8]) {
    let template = EsiTemplate::parse(data);
    assert!(template.body.len() <= data.len());
    assert!(
        template
            .includes
            .windows(2)
            .all(|two| two[0].at <= two[1].at)
    );
    let mut page = RequestInfo::default();
    let line = RequestLineInfo {
        method: "GET",
        target: b"/blog/?page=2",
        scheme: Scheme::Http,
        host: "site.test",
        has_body: false,
        upgrade: false,
        country: None,
    };
    let cookie = ("cookie", b"wordpress_logged_in_1=secret".as_slice());
    let fields = std::iter::once(cookie);
    if page.parse(&line, fields, &Policy::default()).is_err() {
        return;
    }
    let hosts = [
        HostPattern::Exact("parts.test".to_owned()),
        HostPattern::Any,
    ];
    for tag in &template.includes {
        assert!(tag.at <= template.body.len());
        let Ok(target) = IncludeTarget::resolve(&tag.source.src, &page, &hosts) else {
            continue;
        };
        assert!(["site.test", "parts.test"].contains(&&*target.authority));
        let bytes = target.head(&page);
        let mut buffer = HeadBuffer::new();
        if let Ok(ParsedHead::Whole { head, length }) =
            head::parse(&bytes, &HeadLimits::default(), &mut buffer)
        {
            assert_eq!(length, bytes.len());
            assert!(head.method == "GET" && head.fields().count() == 2);
        }
    }
}
