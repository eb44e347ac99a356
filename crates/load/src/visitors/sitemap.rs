//! Reads the URLs in a sitemap (sitemaps.org). Accepts any text; only `<loc>` is read.

/// The contents of a sitemap file.
#[derive(Debug, PartialEq, Eq)]
pub enum Sitemap {
    /// URLs of pages.
    Pages(Vec<String>),
    /// URLs of further sitemaps.
    Index(Vec<String>),
}

/// Reads one file; `None` if it is not a sitemap. Only the first 50,000 URLs are read, the limit of the format.
pub fn sitemap(text: &str) -> Option<Sitemap> {
    let addresses = || {
        let all = text
            .split("<loc>")
            .skip(1)
            .filter_map(|rest| rest.split_once("</loc>"));
        all.map(|(inner, _)| unescaped(inner.trim()))
            .take(MAX_ADDRESSES)
            .collect()
    };
    if text.contains("<sitemapindex") {
        Some(Sitemap::Index(addresses()))
    } else if text.contains("<urlset") {
        Some(Sitemap::Pages(addresses()))
    } else {
        None
    }
}

fn unescaped(text: &str) -> String {
    let text = text
        .strip_prefix("<![CDATA[")
        .and_then(|text| text.strip_suffix("]]>"))
        .unwrap_or(text);
    let mut text = text.to_owned();
    // `&amp;` last, so that its result is not decoded again.
    for (name, letter) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&#039;", "'"),
        ("&#038;", "&"),
        ("&amp;", "&"),
    ] {
        text = text.replace(name, letter);
    }
    text
}

const MAX_ADDRESSES: usize = 50_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_indexes_are_distinguished() {
        let pages = "<?xml version=\"1.0\"?><urlset xmlns=\"x\"><url><loc>\n https://a.test/?a=1&amp;b=2 </loc>\
            <lastmod>2026</lastmod></url><url><loc><![CDATA[https://a.test/x]]></loc></url><url><loc>cut";
        let wanted = vec![
            "https://a.test/?a=1&b=2".to_owned(),
            "https://a.test/x".to_owned(),
        ];
        assert_eq!(sitemap(pages), Some(Sitemap::Pages(wanted)));
        let index =
            "<sitemapindex><sitemap><loc>https://a.test/posts.xml</loc></sitemap></sitemapindex>";
        let wanted = vec!["https://a.test/posts.xml".to_owned()];
        assert_eq!(sitemap(index), Some(Sitemap::Index(wanted)));
        assert_eq!(sitemap("<html>404</html>"), None);
        let many = format!("<urlset>{}", "<loc>/</loc>".repeat(60_000));
        assert!(matches!(sitemap(&many), Some(Sitemap::Pages(all)) if all.len() == 50_000));
    }
}
