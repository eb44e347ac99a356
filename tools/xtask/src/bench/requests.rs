//! The requests of a scenario as bytes, and the expected response.

use galley_load::{Generator, Pace, RequestOrder, Template, Workload};

use super::{
    check::ExpectedResponse,
    plan::BenchPlan,
    settings::{BackgroundLoad, Page, RequestHeads, Scenario},
    site::{ExpectedBody, Site},
};
use crate::error::CommandError;

/// The requests of one load, the same for all contenders.
#[derive(Debug, Clone)]
pub(super) struct ScenarioRequests<'a> {
    plan: &'a BenchPlan,
    site: &'a Site,
    page: Page,
    heads: RequestHeads,
    method: &'a str,
    accept_encoding: &'a str,
    range: Option<&'a str>,
    closes: bool,
    /// Each request is for a different page.
    unique: bool,
    /// Number of pages with a number in their URL; 0 for one page without a number.
    pages: usize,
    /// Distinguishes the unique pages of this measurement from those of others.
    batch: String,
    /// If `ab` sends the requests: whether it uses keep-alive.
    ab_keep_alive: Option<bool>,
    /// The header field of a conditional request, with the validator of an earlier response.
    condition: Option<String>,
}

impl<'a> ScenarioRequests<'a> {
    /// The measured requests of a scenario. `batch` must be unique.
    pub(super) fn new(
        plan: &'a BenchPlan,
        site: &'a Site,
        scenario: &'a Scenario,
        batch: u32,
    ) -> Self {
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
            ab_keep_alive: (!scenario.ab.is_empty())
                .then(|| scenario.ab.iter().any(|word| word == "-k")),
            condition: None,
        }
    }

    /// The requests of a background load.
    pub(super) fn background(&self, load: &'a BackgroundLoad) -> Self {
        Self {
            page: load.target,
            heads: RequestHeads::OneAddress,
            method: &load.method,
            range: None,
            closes: false,
            unique: load.unique,
            pages: if load.unique { 0 } else { BACKGROUND_PAGES },
            condition: None,
            ..self.clone()
        }
    }

    /// The same requests with the validator of a response.
    pub(super) fn with_condition(mut self, condition: String) -> Self {
        self.condition = Some(condition);
        self
    }

    /// Requests for one unique page with this name.
    pub(super) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.batch);
        self.unique = false;
        self
    }

    /// Number of different pages, at least one.
    pub(super) fn count(&self) -> usize {
        self.pages.max(1)
    }

    pub(super) fn method(&self) -> &str {
        self.method
    }

    /// A request for the page with this number, counted from 0. The head is always the same.
    pub(super) fn head(&self, number: usize) -> Vec<u8> {
        let count = "0".repeat(DIGITS);
        let page = (number + 1).to_string();
        let text = self.text(&self.plan.browser.query, &self.plan.browser.fields);
        text.replace("{count}", &count)
            .replace("{page}", &page)
            .into_bytes()
    }

    /// The head of all requests, with placeholders for the parts that differ.
    fn template(&self) -> Result<Template, CommandError> {
        let browser = &self.plan.browser;
        let name = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
        let unique: Vec<String> = browser
            .unique_fields
            .iter()
            .map(|line| name(line))
            .collect();
        let mut fields: Vec<String> = browser.fields.clone();
        if self.heads != RequestHeads::One {
            fields.retain(|line| !unique.contains(&name(line)));
            fields.extend(browser.unique_fields.clone());
        }
        let query = match self.heads {
            RequestHeads::Different => &browser.unique_query,
            RequestHeads::OneAddress | RequestHeads::One => &browser.query,
        };
        Ok(Template::parse(&self.text(query, &fields), &browser.lists)?)
    }

    fn text(&self, query: &str, fields: &[String]) -> String {
        let Self { plan, method, .. } = self;
        let target = self.address(query);
        let mut lines = vec![format!("Host: {}", plan.host)];
        let version = if let Some(keep_alive) = self.ab_keep_alive {
            if keep_alive {
                lines.push("Connection: Keep-Alive".to_owned());
            }
            lines.push("User-Agent: ApacheBench/2.3".to_owned());
            lines.push("Accept: */*".to_owned());
            "HTTP/1.0"
        } else {
            self.add_browser_fields(fields, &mut lines);
            "HTTP/1.1"
        };
        format!(
            "{method} {target} {version}\r\n{}\r\n\r\n",
            lines.join("\r\n")
        )
    }

    fn add_browser_fields(&self, fields: &[String], lines: &mut Vec<String>) {
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

    /// Path and query of a page, as in [`head`](Self::head).
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
        if self.ab_keep_alive.is_none() && !query.is_empty() {
            parameters.push(query.to_owned());
        }
        if parameters.is_empty() {
            path.to_owned()
        } else {
            format!("{path}?{}", parameters.join("&"))
        }
    }

    fn status(&self) -> u16 {
        if self.condition.is_some() {
            304
        } else if self.range.is_some() {
            206
        } else {
            200
        }
    }

    /// The expected response with this decoded body.
    pub(super) fn expected_response<'b>(&'b self, body: &'b ExpectedBody) -> ExpectedResponse<'b> {
        ExpectedResponse {
            method: self.method,
            status: self.status(),
            body,
        }
    }

    /// The expected decoded body of a response.
    pub(super) fn expected_body(&self, number: usize) -> Result<ExpectedBody, CommandError> {
        if self.condition.is_some() {
            return Ok(ExpectedBody::Bytes(Vec::new()));
        }
        let whole = self.site.expected_body(self.page, number + 1)?;
        match (self.range, whole) {
            (Some(range), ExpectedBody::Bytes(bytes)) => {
                let (first, last) =
                    bounds(range).ok_or_else(|| format!("invalid range: `{range}`"))?;
                let part = bytes
                    .get(first..=last)
                    .ok_or("the range exceeds the file")?;
                Ok(ExpectedBody::Bytes(part.to_vec()))
            }
            (_, whole) => Ok(whole),
        }
    }

    /// The workload of a measurement.
    pub(super) fn workload(
        &self,
        connections: usize,
        pace: Pace,
    ) -> Result<Workload, CommandError> {
        let order = if self.page == Page::Pages && self.pages > 0 {
            RequestOrder::Zipf(self.pages)
        } else {
            RequestOrder::InTurn(self.count())
        };
        self.ordered(&order, connections, pace)
    }

    /// A workload that requests each page once.
    pub(super) fn each_page_once(&self) -> Result<Workload, CommandError> {
        self.ordered(
            &RequestOrder::InTurn(self.count()),
            FILL_CONNECTIONS,
            Pace::Closed,
        )
    }

    fn ordered(
        &self,
        order: &RequestOrder,
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

/// The positions of the first and the last byte in a field value such as `bytes=10-19`.
fn bounds(range: &str) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Number of digits that replace the placeholder `{count}`.
const DIGITS: usize = 10;
/// Connections that fill a cache: fewer than PHP has workers, so that no server rejects a request.
const FILL_CONNECTIONS: usize = 8;
/// Number of pages of a background load without `unique`.
const BACKGROUND_PAGES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_byte_range_has_bounds() {
        assert_eq!(bounds("bytes=10-19"), Some((10, 19)));
        for other in ["bytes=10-", "bytes=-5", "lines=1-2", "bytes=1-2,4-5"] {
            assert_eq!(bounds(other), None, "{other}");
        }
    }
}
