//! The request of a scenario as bytes, and what its answer must be.

use galley_load::{Generator, Order, Pace, Template, Workload};

use super::{
    plan::{Heads, Page, Plan, Scenario},
    site::{Expected, Site},
};
use crate::demo::CommandError;

/// The requests of one stream, the same for each contender.
#[derive(Debug, Clone)]
pub(super) struct Question<'a> {
    plan: &'a Plan,
    site: &'a Site,
    page: Page,
    heads: Heads,
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
            heads: scenario.heads,
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
            heads: Heads::OneAddress,
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

    /// A request for one page, always the same; numbers count from 0.
    pub(super) fn head(&self, number: usize) -> Vec<u8> {
        let count = "0".repeat(DIGITS);
        let page = (number + 1).to_string();
        let text = self.text(&self.plan.browser.query, &self.plan.browser.fields);
        text.replace("{count}", &count)
            .replace("{page}", &page)
            .into_bytes()
    }

    /// The head of all requests, with placeholders for what differs.
    fn template(&self) -> Result<Template, CommandError> {
        let browser = &self.plan.browser;
        let name = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
        let own: Vec<String> = browser.own_fields.iter().map(|line| name(line)).collect();
        let mut fields: Vec<String> = browser.fields.clone();
        if self.heads != Heads::One {
            fields.retain(|line| !own.contains(&name(line)));
            fields.extend(browser.own_fields.clone());
        }
        let query = match self.heads {
            Heads::Different => &browser.own_query,
            Heads::OneAddress | Heads::One => &browser.query,
        };
        Ok(Template::parse(&self.text(query, &fields), &browser.lists)?)
    }

    fn text(&self, query: &str, fields: &[String]) -> String {
        let Self { plan, method, .. } = self;
        let target = self.address(query);
        let mut lines = vec![format!("Host: {}", plan.host)];
        let version = if let Some(keeps) = self.by_ab {
            if keeps {
                lines.push("Connection: Keep-Alive".to_owned());
            }
            lines.push("User-Agent: ApacheBench/2.3".to_owned());
            lines.push("Accept: */*".to_owned());
            "HTTP/1.0"
        } else {
            self.browser(fields, &mut lines);
            "HTTP/1.1"
        };
        format!(
            "{method} {target} {version}\r\n{}\r\n\r\n",
            lines.join("\r\n")
        )
    }

    /// The fields that a browser sends.
    fn browser(&self, fields: &[String], lines: &mut Vec<String>) {
        lines.extend(fields.iter().map(|field| {
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

    /// Path and query of one page, as [`head`](Self::head) has them.
    pub(super) fn target(&self, number: usize) -> String {
        let text = self.address(&self.plan.browser.query);
        text.replace("{page}", &(number + 1).to_string())
    }

    fn address(&self, query: &str) -> String {
        let path = self.site.target(self.page);
        let mut parameters = Vec::new();
        if self.unique {
            parameters.push(format!("n={}{{count}}", self.batch));
        } else if self.pages > 0 {
            parameters.push("n={page}".to_owned());
        } else if self.page == Page::Stampede {
            parameters.push(format!("n={}", self.batch));
        }
        if self.by_ab.is_none() && !query.is_empty() {
            parameters.push(query.to_owned());
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
    pub(super) fn expected(&self, number: usize) -> Result<Expected, CommandError> {
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

    /// All requests, for the client.
    pub(super) fn workload(
        &self,
        connections: usize,
        pace: Pace,
    ) -> Result<Workload, CommandError> {
        let order = if self.page == Page::Pages && self.pages > 0 {
            Order::Zipf(self.pages)
        } else {
            Order::InTurn(self.count())
        };
        self.ordered(&order, connections, pace)
    }

    /// Each page once.
    pub(super) fn once_each(&self) -> Result<Workload, CommandError> {
        self.ordered(&Order::InTurn(self.count()), PRIMING, Pace::Closed)
    }

    fn ordered(
        &self,
        order: &Order,
        connections: usize,
        pace: Pace,
    ) -> Result<Workload, CommandError> {
        let generator = Generator::new(self.template()?, order, self.status());
        Ok(Workload {
            requests: Box::new(generator),
            connections,
            pace,
        })
    }
}

/// `bytes=10-19`: the first and the last byte.
fn bounds(range: &str) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Of the placeholder for the count.
const DIGITS: usize = 10;
/// Connections that fill a cache: fewer than PHP has workers, so that nobody refuses one.
const PRIMING: usize = 8;
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
