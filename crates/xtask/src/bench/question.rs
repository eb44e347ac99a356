//! The request of a scenario as bytes, and what its answer must be.

use super::{
    load::{Ask, Asks, Order, Wanted, Zipf},
    plan::{Page, Plan, Scenario},
    site::{Expected, Site},
};
use crate::demo::Complaint;

/// What one stream asks, whoever answers.
#[derive(Debug, Clone)]
pub(super) struct Question<'a> {
    plan: &'a Plan,
    site: &'a Site,
    page: Page,
    method: &'a str,
    accept_encoding: &'a str,
    range: Option<&'a str>,
    closes: bool,
    /// Each request is for a page of its own.
    unique: bool,
    /// Different pages, by number; 0: one without a number.
    pages: usize,
    /// Distinguishes this measurement's own pages from those of others.
    batch: String,
    /// By ab: HTTP/1.0 and its few fields; whether with keep-alive.
    by_ab: Option<bool>,
    /// A field that names the validator of an answer that came before.
    condition: Option<String>,
}

impl<'a> Question<'a> {
    /// What is measured in a scenario. `batch` must be another one each time.
    pub(super) fn of(plan: &'a Plan, site: &'a Site, scenario: &'a Scenario, batch: u32) -> Self {
        Self {
            plan,
            site,
            page: scenario.target,
            method: "GET",
            accept_encoding: &scenario.accept_encoding,
            range: scenario.range.as_deref(),
            closes: scenario.close,
            unique: scenario.unique,
            pages: if scenario.zipf { plan.length.pages } else { 0 },
            batch: format!("b{batch}x"),
            by_ab: (!scenario.ab.is_empty()).then(|| scenario.ab.iter().any(|word| word == "-k")),
            condition: None,
        }
    }

    /// What goes on beside it.
    pub(super) fn beside(&self, beside: &'a super::plan::Beside) -> Self {
        Self {
            page: beside.target,
            method: &beside.method,
            range: None,
            closes: false,
            unique: beside.unique,
            pages: if beside.unique { 0 } else { PAGES_BESIDE },
            condition: None,
            ..self.clone()
        }
    }

    /// The same, with the validator of an answer.
    pub(super) fn with_condition(mut self, condition: String) -> Self {
        self.condition = Some(condition);
        self
    }

    /// A page of its own under a name.
    pub(super) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.batch);
        self.unique = false;
        self
    }

    /// Number of different pages; at least one.
    pub(super) fn count(&self) -> usize {
        self.pages.max(1)
    }

    pub(super) fn method(&self) -> &str {
        self.method
    }

    /// The request for one page; numbers count from 0.
    pub(super) fn head(&self, number: usize) -> Vec<u8> {
        let Self { plan, method, .. } = self;
        let target = self.target(number);
        let mut lines = vec![format!("Host: {}", plan.host)];
        let version = if let Some(keeps) = self.by_ab {
            if keeps {
                lines.push("Connection: Keep-Alive".to_owned());
            }
            lines.push("User-Agent: ApacheBench/2.3".to_owned());
            lines.push("Accept: */*".to_owned());
            "HTTP/1.0"
        } else {
            self.browser(&mut lines);
            "HTTP/1.1"
        };
        format!(
            "{method} {target} {version}\r\n{}\r\n\r\n",
            lines.join("\r\n")
        )
        .into_bytes()
    }

    /// The fields that a browser sends.
    fn browser(&self, lines: &mut Vec<String>) {
        let fields = self.plan.browser.fields.iter();
        lines.extend(fields.map(|field| {
            if self.closes && field.starts_with("Connection:") {
                "Connection: close".to_owned()
            } else {
                field.clone()
            }
        }));
        if !self.accept_encoding.is_empty() {
            lines.push(format!("Accept-Encoding: {}", self.accept_encoding));
        }
        if let Some(range) = self.range {
            lines.push(format!("Range: {range}"));
        }
        lines.extend(self.condition.clone());
    }

    /// Path and query.
    pub(super) fn target(&self, number: usize) -> String {
        let path = self.site.target(self.page);
        let mut parameters = Vec::new();
        if self.unique {
            parameters.push(format!("n={}{}", self.batch, "0".repeat(DIGITS)));
        } else if self.pages > 0 {
            parameters.push(format!("n={}", number + 1));
        } else if self.page == Page::Stampede {
            parameters.push(format!("n={}", self.batch));
        }
        if self.by_ab.is_none() && !self.plan.browser.query.is_empty() {
            parameters.push(self.plan.browser.query.clone());
        }
        if parameters.is_empty() {
            path.to_owned()
        } else {
            format!("{path}?{}", parameters.join("&"))
        }
    }

    pub(super) fn status(&self) -> u16 {
        if self.condition.is_some() {
            304
        } else if self.range.is_some() {
            206
        } else {
            200
        }
    }

    /// What the decoded body of an answer must be.
    pub(super) fn expected(&self, number: usize) -> Result<Expected, Complaint> {
        if self.condition.is_some() {
            return Ok(Expected::Bytes(Vec::new()));
        }
        let whole = self.site.expected(self.page, number + 1)?;
        match (self.range, whole) {
            (Some(range), Expected::Bytes(bytes)) => {
                let (first, last) =
                    bounds(range).ok_or_else(|| format!("not a range: `{range}`"))?;
                let part = bytes.get(first..=last).ok_or("a range beyond the file")?;
                Ok(Expected::Bytes(part.to_vec()))
            }
            (_, whole) => Ok(whole),
        }
    }

    /// All requests, for the client. `length`: of the body, where it is the same for all.
    pub(super) fn asks(&self, length: Option<u64>) -> Asks {
        let wanted = Wanted {
            status: self.status(),
            length: length.filter(|_| self.count() == 1),
        };
        let asks = (0..self.count()).map(|number| {
            let bytes = self.head(number);
            let mut ask = Ask::new(bytes, wanted);
            if self.unique {
                let mark = format!("n={}", self.batch);
                let at = memchr::memmem::find(&ask.bytes, mark.as_bytes());
                ask.counter = at.map(|at| at + mark.len()..at + mark.len() + DIGITS);
            }
            ask
        });
        let order = if self.page == Page::Pages && self.pages > 0 {
            Order::Zipf(Zipf::new(self.pages))
        } else {
            Order::InTurn
        };
        Asks::new(asks.collect(), order)
    }

    /// Each page once.
    pub(super) fn once_each(&self) -> Asks {
        let wanted = Wanted {
            status: self.status(),
            length: None,
        };
        let asks = (0..self.count()).map(|number| Ask::new(self.head(number), wanted));
        Asks::new(asks.collect(), Order::InTurn)
    }
}

/// `bytes=10-19`: the first and the last byte.
fn bounds(range: &str) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

const DIGITS: usize = 10;
/// Different pages of what goes on beside, where each request is not for one of its own.
const PAGES_BESIDE: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(bounds("bytes=10-19"), Some((10, 19)));
        for other in ["bytes=10-", "bytes=-5", "lines=1-2", "bytes=1-2,4-5"] {
            assert_eq!(bounds(other), None, "{other}");
        }
    }
}
