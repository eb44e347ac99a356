//! What to measure: `bench/scenarios.toml` and `bench/contenders.toml` as types.
//!
//! An unknown key is an error, and so is a name that nobody has. Whether the words in braces have a meaning is seen when
//! they are filled in.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use serde::{Deserialize, Serialize};

use super::figure::Figure;

/// Everything that one run needs to know.
#[derive(Debug)]
pub(super) struct Plan {
    /// Host that all clients name and that WordPress believes to be.
    pub(super) host: String,
    /// Children of Apache, workers of PHP-FPM.
    pub(super) php_workers: u32,
    /// Name of the contender whose answers the floor sends.
    pub(super) subject: String,
    pub(super) length: Length,
    pub(super) is_quick: bool,
    pub(super) browser: Browser,
    pub(super) apache: Apache,
    pub(super) contenders: Vec<Contender>,
    pub(super) scenarios: Vec<Scenario>,
    pub(super) targets: Vec<Target>,
    pub(super) readme: Readme,
    /// Name of a program and the command that prints its version.
    pub(super) versions: BTreeMap<String, Vec<String>>,
}

/// How long it all takes.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Length {
    pub(super) rounds: u32,
    /// Slices of each round, in which all contenders of a scenario are measured in turns.
    pub(super) slices: u32,
    /// Of each slice.
    pub(super) slice_s: f64,
    pub(super) warm_up_s: f64,
    /// Of the scenario with many.
    pub(super) pages: usize,
    /// How many of the requests of ab's lines are sent, as a share.
    pub(super) ab_share: f64,
}

/// The request of our own client.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Browser {
    /// Parameters that every target gets where all requests are for one address.
    pub(super) query: String,
    /// The same where each request has its own.
    pub(super) own_query: String,
    /// Fields beside Host, whole lines, where one head is sent again and again.
    pub(super) fields: Vec<String>,
    /// The same where each request has its own; a field of the same name above is left out.
    pub(super) own_fields: Vec<String>,
    /// What names in braces stand for.
    pub(super) lists: BTreeMap<String, Vec<String>>,
}

/// Directives for Apache beyond those that every WordPress needs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Apache {
    pub(super) keep_alive_timeout_s: u32,
    /// Lines of configuration, with words.
    pub(super) extra: String,
}

/// A way to serve the site.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contender {
    /// Short and unique.
    pub(super) name: String,
    /// For tables and charts.
    pub(super) title: String,
    /// The backend that generates the pages: its processes count.
    #[serde(default)]
    pub(super) backend: Backend,
    /// The program, with words.
    pub(super) command: Vec<String>,
    /// Configuration files in the folder `contenders`, and where they go below the contender's folder.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// Folders below its own that its workers may write to.
    #[serde(default)]
    pub(super) folders: Vec<String>,
    /// Started anew for each measurement, with the subject's answers.
    #[serde(default)]
    pub(super) is_floor: bool,
    /// It has no PHP that could take its time for the stampede's page, and takes so long itself: milliseconds.
    #[serde(default)]
    pub(super) holds_ms: Option<f64>,
    /// Part of the quick run.
    #[serde(default)]
    pub(super) quick: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Backend {
    /// Nobody: it serves files.
    #[default]
    None,
    /// Apache with mod_php, one for all contenders that need one.
    Apache,
    /// A PHP-FPM of its own: kept connections occupy workers.
    PhpFpm,
}

/// A question and who is asked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) title: String,
    /// What is compared, in a sentence or two.
    pub(super) note: String,
    /// What tables and charts compare.
    #[serde(default)]
    pub(super) figure: Figure,
    pub(super) target: Page,
    #[serde(default)]
    pub(super) heads: Heads,
    /// The value of Accept-Encoding; empty: the field is not sent.
    #[serde(default)]
    pub(super) accept_encoding: String,
    #[serde(default = "hundred")]
    pub(super) connections: usize,
    /// Connections beside these that never ask.
    #[serde(default)]
    pub(super) idle: usize,
    /// Requests in a second; none: as many as it takes.
    pub(super) rate: Option<f64>,
    /// A new connection for each request.
    #[serde(default)]
    pub(super) close: bool,
    /// Over TLS, and what is spoken there; none: HTTP/1.1 in plain.
    pub(super) tls: Option<Spoken>,
    /// Requests under way on each connection (HTTP/2).
    #[serde(default = "single")]
    pub(super) streams: usize,
    /// With `close`: each connection resumes the session of one before.
    #[serde(default)]
    pub(super) resumed: bool,
    /// The request names the validator of the answer before.
    #[serde(default)]
    pub(super) conditional: bool,
    /// The value of Range.
    pub(super) range: Option<String>,
    /// Each request is for a page of its own.
    #[serde(default)]
    pub(super) unique: bool,
    /// Many pages by Zipf's law.
    #[serde(default)]
    pub(super) zipf: bool,
    /// Asked by ab with these arguments in place of our client.
    #[serde(default)]
    pub(super) ab: Vec<String>,
    /// All at once, once.
    pub(super) stampede: Option<Stampede>,
    /// What else goes on meanwhile.
    #[serde(default)]
    pub(super) beside: Vec<Beside>,
    /// By name, in the order in which they are asked.
    pub(super) contenders: Vec<String>,
    /// The contenders of the quick run, where not all of those that have part in it.
    pub(super) quick: Option<Vec<String>>,
}

/// How the heads of a scenario's requests differ.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Heads {
    /// Each has its own tracking parameters, cookies, Referer and User-Agent.
    #[default]
    Different,
    /// As above, but all are for the same address, for caches that take the query as a part of it.
    OneAddress,
    /// One head is sent again and again (for each page).
    One,
}

/// What is spoken over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Spoken {
    #[serde(rename = "http/1.1")]
    Http1,
    #[serde(rename = "h2")]
    H2,
}

/// In what state the page is that a thousand ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stampede {
    Missing,
    Expired,
}

/// Requests beside those that are measured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Beside {
    pub(super) target: Page,
    #[serde(default = "get")]
    pub(super) method: String,
    #[serde(default)]
    pub(super) unique: bool,
    pub(super) connections: usize,
    pub(super) rate: f64,
}

/// What is asked for; the module `site` knows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Page {
    Thirteen,
    Ten,
    Post,
    Hello,
    Image,
    Large,
    Pages,
    Stampede,
    Slow,
    Refresh,
    Purged,
}

/// What a run must show.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    pub(super) text: String,
    pub(super) of: Cell,
    /// `of` is divided by it, round by round.
    pub(super) against: Option<Cell>,
    pub(super) at_most: Option<f64>,
    pub(super) at_least: Option<f64>,
}

/// One number of a run.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cell {
    pub(super) scenario: String,
    pub(super) contender: String,
    pub(super) figure: Figure,
}

/// What the README's block is made of, by name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Readme {
    pub(super) charts: Vec<String>,
    pub(super) rows: Vec<String>,
    pub(super) columns: Vec<String>,
}

/// The run was asked for wrongly, or its files are wrong: exit code 2.
#[derive(Debug)]
pub(crate) struct Misuse(String);

/// Which part of the plan is wanted; empty: all.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) quick: bool,
    pub(super) contenders: &'a [String],
    pub(super) scenarios: &'a [String],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    host: String,
    php_workers: u32,
    subject: String,
    full: Length,
    quick: Length,
    browser: Browser,
    apache: Apache,
    scenario: Vec<Scenario>,
    target: Vec<Target>,
    readme: Readme,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContenderFile {
    contender: Vec<Contender>,
    versions: BTreeMap<String, Vec<String>>,
}

impl Plan {
    /// Reads both files in `folder` and keeps what is wanted.
    pub(super) fn load(folder: &Path, wish: Wish<'_>) -> Result<Self, Misuse> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path)
                .map_err(|error| Misuse(format!("cannot read `{}`: {error}", path.display())))
        };
        Self::parse(&read("scenarios.toml")?, &read("contenders.toml")?, wish)
    }

    fn parse(scenarios: &str, contenders: &str, wish: Wish<'_>) -> Result<Self, Misuse> {
        let file: ScenarioFile = toml::from_str(scenarios)
            .map_err(|error| Misuse(format!("scenarios.toml: {error}")))?;
        let others: ContenderFile = toml::from_str(contenders)
            .map_err(|error| Misuse(format!("contenders.toml: {error}")))?;
        let mut plan = Self {
            host: file.host,
            php_workers: file.php_workers,
            subject: file.subject,
            length: if wish.quick { file.quick } else { file.full },
            is_quick: wish.quick,
            browser: file.browser,
            apache: file.apache,
            contenders: others.contender,
            scenarios: file.scenario,
            targets: file.target,
            readme: file.readme,
            versions: others.versions,
        };
        plan.check_names(wish)?;
        plan.keep(wish);
        Ok(plan)
    }

    /// Every name that is used must be somebody's.
    fn check_names(&self, wish: Wish<'_>) -> Result<(), Misuse> {
        let contenders = self
            .scenarios
            .iter()
            .flat_map(|one| one.contenders.iter().chain(one.quick.iter().flatten()));
        let cells = self
            .targets
            .iter()
            .flat_map(|target| [Some(&target.of), target.against.as_ref()])
            .flatten();
        let contenders = contenders
            .chain(cells.clone().map(|cell| &cell.contender))
            .chain(&self.readme.columns)
            .chain(wish.contenders)
            .chain([&self.subject]);
        for name in contenders {
            if self.contender(name).is_none() {
                return Err(Misuse(format!("no contender is called `{name}`")));
            }
        }
        let scenarios = cells
            .map(|cell| &cell.scenario)
            .chain(&self.readme.rows)
            .chain(&self.readme.charts)
            .chain(wish.scenarios);
        for name in scenarios {
            if !self.scenarios.iter().any(|one| one.name == *name) {
                return Err(Misuse(format!("no scenario is called `{name}`")));
            }
        }
        Ok(())
    }

    fn keep(&mut self, wish: Wish<'_>) {
        let wants = |names: &[String], name: &String| names.is_empty() || names.contains(name);
        self.scenarios
            .retain(|scenario| wants(wish.scenarios, &scenario.name));
        let quick: Vec<&String> = self
            .contenders
            .iter()
            .filter(|one| one.quick || !wish.quick || wish.contenders.contains(&one.name))
            .map(|one| &one.name)
            .collect();
        for scenario in &mut self.scenarios {
            if let Some(names) = &scenario.quick
                && wish.quick
            {
                scenario.contenders.clone_from(names);
            }
            scenario
                .contenders
                .retain(|name| wants(wish.contenders, name) && quick.contains(&name));
        }
        self.scenarios
            .retain(|scenario| !scenario.contenders.is_empty());
        let used = |name: &String| {
            *name == self.subject
                || self
                    .scenarios
                    .iter()
                    .any(|one| one.contenders.contains(name))
        };
        self.contenders.retain(|one| used(&one.name));
    }

    pub(super) fn contender(&self, name: &str) -> Option<&Contender> {
        self.contenders.iter().find(|one| one.name == name)
    }

    /// Measurements of one round.
    pub(super) fn cells(&self) -> usize {
        self.scenarios.iter().map(|one| one.contenders.len()).sum()
    }
}

impl Misuse {
    pub(crate) fn new(complaint: String) -> Self {
        Self(complaint)
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

fn hundred() -> usize {
    100
}

fn single() -> usize {
    1
}

fn get() -> String {
    "GET".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIOS: &str = include_str!("../../../../bench/scenarios.toml");
    const CONTENDERS: &str = include_str!("../../../../bench/contenders.toml");

    impl Plan {
        /// The plan that is shipped, for tests of others.
        pub(in super::super) fn shipped() -> Self {
            Self::parse(SCENARIOS, CONTENDERS, Wish::default()).unwrap()
        }
    }

    #[test]
    fn the_shipped_files_are_understood() {
        let plan = Plan::shipped();
        for scenario in &plan.scenarios {
            assert!(
                scenario.contenders.contains(&plan.subject),
                "{}",
                scenario.name
            );
        }
        for target in &plan.targets {
            assert!(
                target.at_most.is_some() != target.at_least.is_some(),
                "{}",
                target.text
            );
        }
        for contender in &plan.contenders {
            for file in contender.files.keys() {
                let path = format!(
                    "{}/../../bench/contenders/{file}",
                    env!("CARGO_MANIFEST_DIR")
                );
                assert!(Path::new(&path).exists(), "{path}");
            }
        }
    }

    #[test]
    fn the_head_is_as_long_as_browsers_heads() {
        let Browser { query, fields, .. } = Plan::shipped().browser;
        let lines: usize = fields.iter().map(|line| line.len() + 2).sum();
        let head = "GET /? HTTP/1.1\r\nHost: www.example.com\r\n\r\n".len();
        let length = head + query.len() + lines;
        assert!((600..=900).contains(&length), "{length}");
        assert!(fields.iter().any(|line| line.starts_with("Cookie: _ga=")));
    }

    #[test]
    fn a_wish_leaves_out_what_it_does_not_name() {
        let (names, scenarios) = (["h2o".to_owned()], ["post-br".to_owned()]);
        let wish = Wish {
            quick: true,
            contenders: &names,
            scenarios: &scenarios,
        };
        let plan = Plan::parse(SCENARIOS, CONTENDERS, wish).unwrap();
        assert_eq!((plan.scenarios.len(), plan.cells()), (1, 1));
        // The subject stays: others need it.
        let kept: Vec<&str> = plan
            .contenders
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(kept, ["galley", "h2o"]);
        let quick = Wish {
            quick: true,
            ..Wish::default()
        };
        let quick = Plan::parse(SCENARIOS, CONTENDERS, quick).unwrap();
        assert!(quick.contender("caddy").is_none() && quick.contender("varnish").is_some());
    }

    #[test]
    fn strangers_are_refused() {
        let misspelled = SCENARIOS.replacen("php_workers", "php_worker", 1);
        let unknown = SCENARIOS.replacen("\"nginx-recipe2\"", "\"nginx-recipe9\"", 1);
        let names = ["varnich".to_owned()];
        let rows = [
            (misspelled.as_str(), &[][..], "php_worker"),
            (&unknown, &[], "nginx-recipe9"),
            (SCENARIOS, &names, "varnich"),
        ];
        for (text, contenders, wanted) in rows {
            let wish = Wish {
                contenders,
                ..Wish::default()
            };
            let complaint = Plan::parse(text, CONTENDERS, wish).unwrap_err();
            assert!(complaint.to_string().contains(wanted), "{complaint}");
        }
    }
}
