//! The types of `bench/scenarios.toml` and `bench/contenders.toml`. An unknown key is an error.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figure::Figure;

/// The contents of scenarios.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    pub(super) host: String,
    pub(super) php_workers: u32,
    pub(super) subject: String,
    pub(super) full: RunLength,
    pub(super) quick: RunLength,
    pub(super) browser: BrowserRequest,
    pub(super) apache: ApacheSettings,
    pub(super) scenario: Vec<Scenario>,
    pub(super) target: Vec<PerformanceTarget>,
    pub(super) readme: ReadmeTable,
}

/// The contents of contenders.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContenderFile {
    pub(super) contender: Vec<Contender>,
    pub(super) versions: BTreeMap<String, Vec<String>>,
}

/// The duration of a run and the amount of load.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunLength {
    pub(super) rounds: u32,
    /// Slices per round. The contenders of a scenario are measured alternately, slice by slice.
    pub(super) slices: u32,
    /// Duration of a slice.
    pub(super) slice_s: f64,
    pub(super) warm_up_s: f64,
    /// Number of pages in the scenario with many pages.
    pub(super) pages: usize,
    /// The share of an `ab` command's requests that is sent.
    pub(super) ab_share: f64,
}

/// The request of the benchmark's own client.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BrowserRequest {
    /// The query if all requests have the same URL.
    pub(super) query: String,
    /// The query if each request has a different URL.
    pub(super) unique_query: String,
    /// Header fields without Host, as whole lines, if all requests have the same head.
    pub(super) fields: Vec<String>,
    /// Header fields that differ in each request; they replace those of the same name in `fields`.
    pub(super) unique_fields: Vec<String>,
    /// The values of names in braces.
    pub(super) lists: BTreeMap<String, Vec<String>>,
}

/// Apache directives beyond those that every WordPress needs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApacheSettings {
    pub(super) keep_alive_timeout_s: u32,
    /// Lines of configuration, with placeholders.
    pub(super) extra: String,
}

/// A server that is measured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contender {
    /// Short and unique.
    pub(super) name: String,
    /// The name in tables and charts.
    pub(super) title: String,
    /// The server that generates the pages. Its processes count as part of the contender.
    #[serde(default)]
    pub(super) backend: Backend,
    /// The command line, with placeholders.
    pub(super) command: Vec<String>,
    /// Configuration files in the folder `contenders`, and their paths below the contender's folder.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// Folders below the contender's folder that its workers can write to.
    #[serde(default)]
    pub(super) folders: Vec<String>,
    /// The floor is started again for each measurement, with the subject's responses.
    #[serde(default)]
    pub(super) is_floor: bool,
    /// The delay of a contender without PHP, in place of PHP's time for the stampede page, in milliseconds.
    #[serde(default)]
    pub(super) holds_ms: Option<f64>,
    /// Part of the quick run.
    #[serde(default)]
    pub(super) quick: bool,
}

/// The server that generates a contender's pages.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Backend {
    /// The contender serves files only.
    #[default]
    None,
    /// Apache with mod_php, shared by all contenders that need one.
    Apache,
    /// A separate PHP-FPM, because kept connections occupy workers.
    PhpFpm,
}

/// A load, and the contenders that receive it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    pub(super) name: String,
    /// A name that selects several scenarios.
    pub(super) group: Option<String>,
    pub(super) title: String,
    /// What the scenario compares, in one or two sentences.
    pub(super) note: String,
    /// The figure that tables and charts compare.
    #[serde(default)]
    pub(super) figure: Figure,
    pub(super) target: Page,
    #[serde(default)]
    pub(super) heads: RequestHeads,
    /// The value of Accept-Encoding. If it is empty, the field is not sent.
    #[serde(default)]
    pub(super) accept_encoding: String,
    #[serde(default = "default_connections")]
    pub(super) connections: usize,
    /// Additional connections that never send a request.
    #[serde(default)]
    pub(super) idle: usize,
    /// Requests per second; `None` for a closed loop.
    pub(super) rate: Option<f64>,
    /// Opens a new connection for each request.
    #[serde(default)]
    pub(super) close: bool,
    /// The protocol over TLS; `None` for HTTP/1.1 without TLS.
    pub(super) tls: Option<TlsProtocol>,
    /// Concurrent requests on each connection (HTTP/2 and HTTP/3).
    #[serde(default = "single")]
    pub(super) streams: usize,
    /// With `close`: each connection resumes the session of an earlier one.
    #[serde(default)]
    pub(super) resumed: bool,
    /// The request has the validator of the previous response.
    #[serde(default)]
    pub(super) conditional: bool,
    /// The value of Range.
    pub(super) range: Option<String>,
    /// Each request is for a different page.
    #[serde(default)]
    pub(super) unique: bool,
    /// Requests are for many pages, with a Zipf distribution.
    #[serde(default)]
    pub(super) zipf: bool,
    /// If not empty, `ab` sends the requests, with these arguments.
    #[serde(default)]
    pub(super) ab: Vec<String>,
    /// All requests are sent at the same time, once.
    pub(super) stampede: Option<StampedeState>,
    /// Load that is sent during the measurement, to other pages.
    #[serde(default)]
    pub(super) background: Vec<BackgroundLoad>,
    /// Names of contenders, in the order of measurement.
    pub(super) contenders: Vec<String>,
    /// The contenders of the quick run, if they are not all that take part in it.
    pub(super) quick: Option<Vec<String>>,
}

/// How the heads of a scenario's requests differ.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RequestHeads {
    /// Each request has different tracking parameters, cookies, Referer and User-Agent.
    #[default]
    Different,
    /// As above, but with the same URL, for caches that include the query in their key.
    OneAddress,
    /// All requests for a page have the same head.
    One,
}

/// The HTTP version over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum TlsProtocol {
    #[serde(rename = "http/1.1")]
    Http1,
    #[serde(rename = "h2")]
    H2,
    /// Over QUIC, at the UDP port with the number of the TLS port.
    #[serde(rename = "h3")]
    H3,
}

/// The state in the cache of the page that all clients request at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StampedeState {
    Missing,
    Expired,
}

/// Load during the measurement that is not itself measured by the scenario's figure.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackgroundLoad {
    pub(super) target: Page,
    #[serde(default = "get")]
    pub(super) method: String,
    #[serde(default)]
    pub(super) unique: bool,
    pub(super) connections: usize,
    pub(super) rate: f64,
}

/// The pages of the site. The module `site` has their paths and contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Page {
    Thirteen,
    Ten,
    Long,
    Post,
    Hello,
    Fifty,
    ThreeHundred,
    Image,
    TenMega,
    Large,
    Pages,
    Stampede,
    Slow,
    Refresh,
    Purged,
}

/// A limit for a figure of the run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PerformanceTarget {
    pub(super) text: String,
    pub(super) of: FigureSelector,
    /// The divisor of `of`, slice by slice.
    pub(super) against: Option<FigureSelector>,
    pub(super) at_most: Option<f64>,
    pub(super) at_least: Option<f64>,
}

/// Selects one figure of one contender in one scenario.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureSelector {
    pub(super) scenario: String,
    pub(super) contender: String,
    pub(super) figure: Figure,
}

/// The charts, rows and columns of the table in the README, by name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadmeTable {
    pub(super) charts: Vec<String>,
    pub(super) rows: Vec<String>,
    pub(super) columns: Vec<String>,
}

fn default_connections() -> usize {
    100
}

fn single() -> usize {
    1
}

fn get() -> String {
    "GET".to_owned()
}
