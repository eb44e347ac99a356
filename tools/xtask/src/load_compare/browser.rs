//! A browser's header fields for the other generators, so that their requests are as long as those of `galley load`.

/// About 730 bytes; `galley load` sends 700 to 900.
pub(super) const BROWSER_FIELDS: &[&str] = &[
    "sec-ch-ua: \"Chromium\";v=\"124\", \"Google Chrome\";v=\"124\", \"Not-A.Brand\";v=\"99\"",
    "sec-ch-ua-mobile: ?0",
    "sec-ch-ua-platform: \"Windows\"",
    "Upgrade-Insecure-Requests: 1",
    "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36",
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    "Sec-Fetch-Site: cross-site",
    "Sec-Fetch-Mode: navigate",
    "Sec-Fetch-User: ?1",
    "Sec-Fetch-Dest: document",
    "Referer: https://news.example.org/posts/104729",
    "Accept-Language: en-GB,en;q=0.9",
    "Cookie: _ga=GA1.1.1031584215.1714032000; _ga_7N2XQ0=GS1.1.1714032000.3.1; cookie_consent=accepted",
];
