//! Visitors as a source of requests: listed pages, heads of browsers, and shares with a login or around the cache.

use std::{collections::BTreeMap, time::Duration};

use super::{
    browser::{FIELDS, LISTS, TRACKING},
    pages::VisitedPage,
};
use crate::{
    LoadError,
    requests::{ExpectedStatus, Requests, ResponseCheck},
    template::{Random, Template, Values},
};

/// The shares of requests that differ from those of plain visitors, from 0 to 1.
#[derive(Debug, Clone, Default)]
pub struct VisitorShares {
    /// Requests with a unique query, which no cache has stored.
    pub uncached: f64,
    /// Requests with the cookies of a login.
    pub logged_in: f64,
    /// The value of `Cookie` for these requests.
    pub cookie: String,
    /// Requests with tracking parameters.
    pub tracking: f64,
}

/// Requests of visitors.
#[derive(Debug)]
pub struct Visitors {
    pages: Vec<VisitedPage>,
    /// Whether pages are requested in their order, and not at random.
    is_in_order: bool,
    host: String,
    /// Distinguishes unique queries from those of other runs.
    batch: u64,
    shares: VisitorShares,
    fields: Template,
    tracking: Template,
    values: Values,
}

impl Visitors {
    /// Creates visitors who request the pages at random. A page that is listed twice is requested twice as often.
    ///
    /// # Errors
    ///
    /// [`LoadError::Pages`] without a page, and for a host or cookies that are invalid in a field.
    pub fn new(
        host: &str,
        pages: Vec<VisitedPage>,
        shares: VisitorShares,
        batch: u64,
    ) -> Result<Self, LoadError> {
        if pages.is_empty() {
            return Err(LoadError::Pages("there is no page to ask for".to_owned()));
        }
        let is_text = |text: &str| text.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
        if !is_text(host) || !is_text(&shares.cookie) {
            return Err(LoadError::Pages(
                "a host or cookie with control characters".to_owned(),
            ));
        }
        let lists = lists();
        Ok(Self {
            pages,
            is_in_order: false,
            host: host.to_owned(),
            batch,
            shares,
            fields: Template::parse(FIELDS, &lists)?,
            tracking: Template::parse(TRACKING, &lists)?,
            values: Values {
                count: 0,
                page: 0,
                random: Random::new(),
            },
        })
    }

    /// Requests the pages in their order, repeatedly; with [`Pace::Recorded`](crate::Pace::Recorded) once, at their recorded times.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.is_in_order = true;
        self
    }

    fn page(&mut self) -> usize {
        if self.is_in_order {
            let turn = (self.values.count - 1) % self.pages.len() as u64;
            usize::try_from(turn).unwrap_or_default()
        } else {
            self.values.random.below(self.pages.len())
        }
    }

    /// Writes method, path and query.
    fn write_target(&mut self, head: &mut Vec<u8>, at: usize) {
        let is_uncached = self.happens(self.shares.uncached);
        let is_tracked = self.happens(self.shares.tracking);
        let Some(page) = self.pages.get(at) else {
            return;
        };
        head.extend_from_slice(page.method.name().as_bytes());
        head.push(b' ');
        head.extend_from_slice(page.target.as_bytes());
        let mut separator = if page.target.contains('?') {
            b'&'
        } else {
            b'?'
        };
        if is_uncached {
            head.push(separator);
            separator = b'&';
            let unique = format!("galley_load={}-{}", self.batch, self.values.count);
            head.extend_from_slice(unique.as_bytes());
        }
        if is_tracked {
            head.push(separator);
            self.tracking.write(head, &mut self.values);
        }
    }

    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.values.random.share() < share
    }
}

fn lists() -> BTreeMap<String, Vec<String>> {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let lists = LISTS.iter();
    lists
        .map(|(name, list)| ((*name).to_owned(), texts(list)))
        .collect()
}

impl Requests for Visitors {
    fn next(&mut self, head: &mut Vec<u8>) -> ResponseCheck {
        self.values.count += 1;
        let at = self.page();
        let is_logged_in = self.happens(self.shares.logged_in);
        self.write_target(head, at);
        head.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        head.extend_from_slice(self.host.as_bytes());
        head.extend_from_slice(b"\r\n");
        self.fields.write(head, &mut self.values);
        if is_logged_in {
            head.extend_from_slice(b"; ");
            head.extend_from_slice(self.shares.cookie.as_bytes());
        }
        head.extend_from_slice(b"\r\n\r\n");
        ResponseCheck {
            page: at,
            status: ExpectedStatus::Served,
        }
    }

    fn due(&self, number: u64) -> Option<Duration> {
        let number = usize::try_from(number).ok()?;
        self.pages.get(number).map(|page| page.due)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::pages::PageMethod, *};

    fn visitors(shares: VisitorShares) -> Visitors {
        let pages =
            ["/a", "/b?x=1"].map(|target| VisitedPage::new(PageMethod::Get, target).unwrap());
        Visitors::new("a.test", pages.into(), shares, 7).unwrap()
    }

    fn heads(visitors: &mut Visitors, count: usize) -> Vec<String> {
        let one = |_| {
            let mut head = Vec::new();
            visitors.next(&mut head);
            String::from_utf8(head).unwrap()
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn heads_are_those_of_browsers_and_no_two_are_the_same() {
        let heads = heads(&mut visitors(VisitorShares::default()), 200);
        for head in &heads {
            let mut fields = [httparse::EMPTY_HEADER; 32];
            let mut request = httparse::Request::new(&mut fields);
            assert!(
                request.parse(head.as_bytes()).unwrap().is_complete(),
                "{head}"
            );
            assert!(["/a", "/b?x=1"].contains(&request.path.unwrap()), "{head}");
        }
        let different: std::collections::BTreeSet<_> = heads.iter().collect();
        assert_eq!(different.len(), 200);
    }

    #[test]
    fn shares_of_requests_are_uncached_logged_in_or_tracked() {
        let shares = VisitorShares {
            uncached: 0.2,
            logged_in: 0.05,
            cookie: "wordpress_logged_in_x=secret".to_owned(),
            tracking: 0.5,
        };
        let heads = heads(&mut visitors(shares), 10_000);
        let count = |part: &str| heads.iter().filter(|head| head.contains(part)).count();
        assert!((1_800..2_200).contains(&count("galley_load=7-")));
        assert!((400..600).contains(&count("; wordpress_logged_in_x=secret\r\n\r\n")));
        assert!(
            (4_700..5_300).contains(&(count("fbclid=") + count("gclid=") + count("utm_content=")))
        );
        for head in &heads {
            let target = head.split(' ').nth(1).unwrap();
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            assert!(!path.contains('&') && !query.contains('?'), "{target}");
        }
    }

    #[test]
    fn a_replay_preserves_the_order_and_ends() {
        let mut visitors = visitors(VisitorShares::default()).in_order();
        let heads = heads(&mut visitors, 3);
        for (head, target) in heads.iter().zip(["/a", "/b?x=1", "/a"]) {
            assert!(
                head.starts_with(&format!("GET {target} HTTP/1.1\r\n")),
                "{head}"
            );
        }
        assert_eq!(
            (visitors.due(1), visitors.due(2)),
            (Some(Duration::ZERO), None)
        );
    }

    #[test]
    fn no_value_adds_a_field() {
        let shares = VisitorShares {
            cookie: "a\r\nb: c".to_owned(),
            ..VisitorShares::default()
        };
        let page = VisitedPage::new(PageMethod::Get, "/").unwrap();
        assert!(Visitors::new("a.test", vec![page.clone()], shares, 1).is_err());
        assert!(Visitors::new("a\r\n", vec![page], VisitorShares::default(), 1).is_err());
        assert!(Visitors::new("a.test", Vec::new(), VisitorShares::default(), 1).is_err());
        for target in ["", "a", "/a b", "/a\r\n", "/ä", "/a#b"] {
            assert_eq!(VisitedPage::new(PageMethod::Get, target), None, "{target}");
        }
    }
}
