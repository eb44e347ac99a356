//! The crawlers whose operators document that the reverse name of their addresses identifies them.

use super::agent::names;

/// A crawler that forward-confirmed reverse DNS can prove.
#[derive(Debug)]
pub struct KnownCrawler {
    /// The name, as in its `User-Agent`.
    pub name: &'static str,
    /// The domains below which the names of its addresses are.
    pub domains: &'static [&'static str],
    /// Where the operator documents it.
    pub source: &'static str,
}

impl KnownCrawler {
    const fn new(
        name: &'static str,
        domains: &'static [&'static str],
        source: &'static str,
    ) -> Self {
        Self {
            name,
            domains,
            source,
        }
    }

    /// Whether a host name is below one of the crawler's domains.
    pub fn owns(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        self.domains.iter().any(|domain| {
            let at = host.len().checked_sub(domain.len());
            let parts = at.and_then(|at| host.split_at_checked(at));
            parts.is_some_and(|(below, end)| {
                below.len() > 1 && below.ends_with('.') && end.eq_ignore_ascii_case(domain)
            })
        })
    }
}

/// The crawler that a `User-Agent` names.
pub fn known(agent: &[u8]) -> Option<&'static KnownCrawler> {
    KNOWN.iter().find(|crawler| names(agent, crawler.name))
}

const GOOGLE: &[&str] = &["googlebot.com", "google.com"];
const GOOGLE_SOURCE: &str =
    "https://developers.google.com/search/docs/crawling-indexing/verifying-googlebot";
const YANDEX: &[&str] = &["yandex.ru", "yandex.net", "yandex.com"];
const YANDEX_SOURCE: &str =
    "https://yandex.com/support/webmaster/robot-workings/check-yandex-robots.html";

/// All of them. `google.com` is for the special crawlers; fetchers that act for users of Google's cloud have names below
/// `googleusercontent.com`, which prove nothing.
pub static KNOWN: &[KnownCrawler] = &[
    KnownCrawler::new("Googlebot", GOOGLE, GOOGLE_SOURCE),
    KnownCrawler::new("GoogleOther", GOOGLE, GOOGLE_SOURCE),
    KnownCrawler::new("Google-InspectionTool", GOOGLE, GOOGLE_SOURCE),
    KnownCrawler::new("Storebot-Google", GOOGLE, GOOGLE_SOURCE),
    KnownCrawler::new("AdsBot-Google", GOOGLE, GOOGLE_SOURCE),
    KnownCrawler::new("Mediapartners-Google", GOOGLE, GOOGLE_SOURCE),
    KnownCrawler::new(
        "bingbot",
        &["search.msn.com"],
        "https://www.bing.com/webmasters/help/how-to-verify-bingbot-3905dc26",
    ),
    KnownCrawler::new(
        "Applebot",
        &["applebot.apple.com"],
        "https://support.apple.com/en-us/119829",
    ),
    KnownCrawler::new(
        "Amazonbot",
        &["crawl.amazonbot.amazon"],
        "https://developer.amazon.com/amazonbot",
    ),
    KnownCrawler::new(
        "CCBot",
        &["crawl.commoncrawl.org"],
        "https://commoncrawl.org/ccbot",
    ),
    KnownCrawler::new("YandexBot", YANDEX, YANDEX_SOURCE),
    KnownCrawler::new("YandexImages", YANDEX, YANDEX_SOURCE),
    KnownCrawler::new(
        "Baiduspider",
        &["crawl.baidu.com", "crawl.baidu.jp"],
        "https://help.baidu.com/question?prod_id=99&class=0&id=3001",
    ),
    KnownCrawler::new(
        "SeznamBot",
        &["seznam.cz"],
        "https://napoveda.seznam.cz/en/seznambot-crawler",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_agents_name_known_crawlers() {
        for (agent, name) in [
            (
                "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
                Some("Googlebot"),
            ),
            ("googlebot-image/1.0", Some("Googlebot")),
            (
                "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
                Some("bingbot"),
            ),
            ("CCBot/2.0 (https://commoncrawl.org/faq/)", Some("CCBot")),
            (
                "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0",
                None,
            ),
            ("GPTBot/1.2", None),
            ("", None),
        ] {
            let found = known(agent.as_bytes()).map(|crawler| crawler.name);
            assert_eq!(found, name, "{agent}");
        }
        let far = format!("{}Googlebot", " ".repeat(600));
        assert!(known(far.as_bytes()).is_none());
    }

    #[test]
    fn a_name_belongs_to_a_crawler_if_it_is_below_its_domain() {
        let google = known(b"Googlebot").unwrap();
        for (host, is_own) in [
            ("crawl-66-249-66-1.googlebot.com", true),
            ("crawl-66-249-66-1.GOOGLEBOT.com.", true),
            ("rate-limited-proxy-66-249-90-77.google.com", true),
            ("googlebot.com", false),
            (".googlebot.com", false),
            ("evilgooglebot.com", false),
            ("crawl.googlebot.com.evil.test", false),
            ("1.0.0.127.bc.googleusercontent.com", false),
            ("127.0.0.1", false),
            ("\u{e4}oglebot.com", false),
            ("", false),
        ] {
            assert_eq!(google.owns(host), is_own, "{host}");
        }
    }

    #[test]
    fn every_row_has_a_source_and_finds_itself() {
        for row in KNOWN {
            assert!(row.source.starts_with("https://") && !row.domains.is_empty());
            let found = known(format!("x {}/1", row.name).as_bytes()).unwrap();
            assert_eq!(found.name, row.name);
        }
    }
}
