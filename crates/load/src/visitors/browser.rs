//! Request heads of browsers with different versions, cookies of a web analytics service, referrers and tracking parameters.

/// Fields of all requests. `{agent}` and `{referer}` are lists below.
pub(super) const FIELDS: &str = "Connection: keep-alive\r
sec-ch-ua: \"Chromium\";v=\"124\", \"Google Chrome\";v=\"124\", \"Not-A.Brand\";v=\"99\"\r
sec-ch-ua-mobile: ?0\r
sec-ch-ua-platform: \"Windows\"\r
Upgrade-Insecure-Requests: 1\r
User-Agent: {agent}\r
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r
Sec-Fetch-Site: cross-site\r
Sec-Fetch-Mode: navigate\r
Sec-Fetch-User: ?1\r
Sec-Fetch-Dest: document\r
Referer: {referer}\r
Accept-Encoding: gzip, deflate, br, zstd\r
Accept-Language: en-GB,en;q=0.9\r
Cookie: _ga=GA1.1.{digits:10}.{digits:10}; _ga_7N2XQ0=GS1.1.{digits:10}.{digits:2}.1; cookie_consent=accepted";

/// Parameters that campaigns add to URLs, and that do not change the page.
pub(super) const TRACKING: &str = "{tracking}";

/// The lists for names in braces.
pub(super) const LISTS: &[(&str, &[&str])] = &[
    (
        "tracking",
        &[
            "utm_source=newsletter&utm_medium=email&utm_campaign=spring&utm_content={token:12}",
            "utm_source=facebook&utm_medium=paid&fbclid={token:61}",
            "gclid={token:55}",
        ],
    ),
    (
        "referer",
        &[
            "https://www.google.com/",
            "https://www.facebook.com/",
            "https://news.example.org/posts/{digits:6}",
            "https://www.bing.com/search?q={token:8}",
        ],
    ),
    (
        "agent",
        &[
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/1{digits:2}.0.0.0 Safari/537.36",
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.{digits:1} Safari/605.1.15",
            "Mozilla/5.0 (X11; Linux x86_64; rv:1{digits:2}.0) Gecko/20100101 Firefox/1{digits:2}.0",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_{digits:1} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Mobile/15E148 Safari/604.1",
        ],
    ),
];
