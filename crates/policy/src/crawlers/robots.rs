//! `Crawl-delay` of a `robots.txt`.
//!
//! The directive is not part of RFC 9309; Bing, Yandex and others read it as the seconds between two requests. Groups follow
//! RFC 9309 section 2.2.1. Departs: the token of a group applies to a crawler whose name begins with it (`Yandex` to
//! `YandexBot`), as operators document it for theirs; the longest one wins. Pinned by `the_longest_token_wins`.

use std::time::Duration;

/// The delays that a `robots.txt` sets.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CrawlDelays {
    /// By the token of the group, in lower case; without a delay if the group sets none.
    groups: Vec<(String, Option<Duration>)>,
    any: Option<Duration>,
}

impl CrawlDelays {
    /// Reads a file; anything that is not understood is ignored, as in RFC 9309 section 2.2.4.
    pub fn parse(text: &str) -> Self {
        let mut delays = Self::default();
        let mut current: Vec<String> = Vec::new();
        let mut is_in_rules = false;
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match key.as_str() {
                "user-agent" => {
                    if std::mem::take(&mut is_in_rules) {
                        current.clear();
                    }
                    let token = value.to_ascii_lowercase();
                    if delays.groups.len() < MAX_GROUPS && !value.is_empty() {
                        delays.add(&token);
                        current.push(token);
                    }
                }
                "allow" | "disallow" => is_in_rules = true,
                "crawl-delay" => {
                    is_in_rules = true;
                    for token in &current {
                        delays.set(token, delay(value));
                    }
                }
                _ => {}
            }
        }
        delays
    }

    fn add(&mut self, token: &str) {
        if token != "*" && !self.groups.iter().any(|(one, _)| one == token) {
            self.groups.push((token.to_owned(), None));
        }
    }

    /// Sets the delay of a group, unless it has one.
    fn set(&mut self, token: &str, delay: Option<Duration>) {
        let group = if token == "*" {
            Some(&mut self.any)
        } else {
            let mut groups = self.groups.iter_mut();
            groups.find(|(one, _)| one == token).map(|(_, set)| set)
        };
        if let Some(group) = group {
            *group = group.or(delay);
        }
    }

    /// The time between two requests of a crawler; `None`: as it likes.
    pub fn of(&self, name: &str) -> Option<Duration> {
        let applies = |token: &str| {
            let start = name.as_bytes().get(..token.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(token.as_bytes()))
        };
        let applying = self.groups.iter().filter(|(token, _)| applies(token));
        match applying.max_by_key(|(token, _)| token.len()) {
            Some((_, delay)) => *delay,
            // Google does not know the directive, so a line for all crawlers is not meant for it.
            None if name.to_ascii_lowercase().contains("google") => None,
            None => self.any,
        }
    }
}

fn delay(value: &str) -> Option<Duration> {
    let seconds: f64 = value.parse().ok()?;
    let delay = Duration::try_from_secs_f64(seconds).ok()?;
    (!delay.is_zero()).then_some(delay.min(MAX_DELAY))
}

/// The maximum size that is read (RFC 9309 section 2.5 demands at least this).
pub const MAX_ROBOTS_BYTES: u64 = 500 << 10;

/// Far more than sites name; the rest is ignored.
const MAX_GROUPS: usize = 500;

const MAX_DELAY: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(text: &str, name: &str) -> Option<f64> {
        CrawlDelays::parse(text)
            .of(name)
            .map(|delay| delay.as_secs_f64())
    }

    #[test]
    fn delays_belong_to_groups() {
        let text = "Crawl-delay: 99\nUser-agent: a\nuser-AGENT : Bingbot # two\nDisallow: /x\ncrawl-delay: 5\ncrawl-delay: 6\n\
            Sitemap: https://a.test/s.xml\nUser-agent: GPTBot\nDisallow:\n\nUser-agent: *\nCrawl-delay: 0.5\n";
        for (name, wanted) in [
            ("bingbot", Some(5.0)),
            ("a", Some(5.0)),
            ("GPTBot", None),
            ("CCBot", Some(0.5)),
        ] {
            assert_eq!(seconds(text, name), wanted, "{name}");
        }
    }

    #[test]
    fn the_longest_token_wins() {
        let text = "User-agent: yandex\nCrawl-delay: 2\nUser-agent: YandexImages\nCrawl-delay: 3\n";
        assert_eq!(seconds(text, "YandexBot"), Some(2.0));
        assert_eq!(seconds(text, "YandexImages"), Some(3.0));
        assert_eq!(seconds(text, "Yande"), None);
    }

    #[test]
    fn values_that_are_no_delay_are_ignored() {
        for value in ["", "0", "-1", "NaN", "inf", "1e400", "soon", "1e-30"] {
            assert_eq!(
                seconds(&format!("User-agent: *\nCrawl-delay: {value}"), "a"),
                None,
                "{value}"
            );
        }
        assert_eq!(
            seconds("User-agent: *\nCrawl-delay: 1e9", "a"),
            Some(86_400.0)
        );
    }

    proptest! {
        #[test]
        fn any_file_is_read_within_bounds(
            lines in proptest::collection::vec("(User-agent|Crawl-delay|Allow|x|)( ?[:#] ?)([a-c*]{0,2}|[0-9.e-]{0,6})", 0..60),
        ) {
            let delays = CrawlDelays::parse(&lines.join("\n"));
            for name in ["a", "bb", "ccc", ""] {
                if let Some(delay) = delays.of(name) {
                    prop_assert!(!delay.is_zero() && delay <= MAX_DELAY);
                }
            }
        }
    }

    #[test]
    fn the_number_of_groups_is_limited() {
        let groups = (0..10_000).map(|n| format!("User-agent: bot{n}\nCrawl-delay: 1\n"));
        let groups: Vec<String> = groups.collect();
        assert_eq!(
            CrawlDelays::parse(&groups.concat()).groups.len(),
            MAX_GROUPS
        );
    }
}
