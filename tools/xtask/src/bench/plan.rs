//! Reads `bench/scenarios.toml` and `bench/contenders.toml` and selects what to run.
//!
//! A reference to an unknown contender or scenario is an error. Placeholders in braces are checked when they are replaced.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use super::settings::{
    ApacheSettings, BrowserRequest, Contender, ContenderFile, PerformanceTarget, ReadmeTable,
    RunLength, Scenario, ScenarioFile,
};

/// The settings of one run.
#[derive(Debug)]
pub(super) struct BenchPlan {
    /// The host name of the site, in requests and in WordPress.
    pub(super) host: String,
    /// Number of Apache children, or of PHP-FPM workers.
    pub(super) php_workers: u32,
    /// Name of the contender whose responses the floor sends.
    pub(super) subject: String,
    pub(super) length: RunLength,
    pub(super) is_quick: bool,
    pub(super) browser: BrowserRequest,
    pub(super) apache: ApacheSettings,
    pub(super) contenders: Vec<Contender>,
    pub(super) scenarios: Vec<Scenario>,
    pub(super) targets: Vec<PerformanceTarget>,
    pub(super) readme: ReadmeTable,
    /// For each program the command that prints its version.
    pub(super) versions: BTreeMap<String, Vec<String>>,
}

/// Invalid arguments or invalid scenario files: exit code 2.
#[derive(Debug)]
pub(crate) struct UsageError(String);

/// The selected part of the plan. An empty list selects everything.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Selection<'a> {
    pub(super) quick: bool,
    pub(super) contenders: &'a [String],
    pub(super) scenarios: &'a [String],
}

impl BenchPlan {
    /// Reads both files in `folder` and applies the selection.
    pub(super) fn load(folder: &Path, selection: Selection<'_>) -> Result<Self, UsageError> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path)
                .map_err(|error| UsageError(format!("cannot read `{}`: {error}", path.display())))
        };
        Self::parse(
            &read("scenarios.toml")?,
            &read("contenders.toml")?,
            selection,
        )
    }

    fn parse(
        scenarios: &str,
        contenders: &str,
        selection: Selection<'_>,
    ) -> Result<Self, UsageError> {
        let file: ScenarioFile = toml::from_str(scenarios)
            .map_err(|error| UsageError(format!("scenarios.toml: {error}")))?;
        let others: ContenderFile = toml::from_str(contenders)
            .map_err(|error| UsageError(format!("contenders.toml: {error}")))?;
        let mut plan = Self {
            host: file.host,
            php_workers: file.php_workers,
            subject: file.subject,
            length: if selection.quick {
                file.quick
            } else {
                file.full
            },
            is_quick: selection.quick,
            browser: file.browser,
            apache: file.apache,
            contenders: others.contender,
            scenarios: file.scenario,
            targets: file.target,
            readme: file.readme,
            versions: others.versions,
        };
        plan.check_names(selection)?;
        plan.apply(selection);
        Ok(plan)
    }

    /// Checks that all names refer to a contender or a scenario.
    fn check_names(&self, selection: Selection<'_>) -> Result<(), UsageError> {
        let contenders = self.scenarios.iter().flat_map(|scenario| {
            scenario
                .contenders
                .iter()
                .chain(scenario.quick.iter().flatten())
        });
        let selectors = self
            .targets
            .iter()
            .flat_map(|target| [Some(&target.of), target.against.as_ref()])
            .flatten();
        let contenders = contenders
            .chain(selectors.clone().map(|selector| &selector.contender))
            .chain(&self.readme.columns)
            .chain(selection.contenders)
            .chain([&self.subject]);
        for name in contenders {
            if self.contender(name).is_none() {
                return Err(UsageError(format!("unknown contender: `{name}`")));
            }
        }
        let is_no_group = |name: &&String| {
            let mut groups = self.scenarios.iter().filter_map(|it| it.group.as_ref());
            !groups.any(|group| group == *name)
        };
        let selected = selection.scenarios.iter().filter(is_no_group);
        let scenarios = selectors
            .map(|selector| &selector.scenario)
            .chain(&self.readme.rows)
            .chain(&self.readme.charts)
            .chain(selected);
        for name in scenarios {
            if !self.scenarios.iter().any(|it| it.name == *name) {
                return Err(UsageError(format!("unknown scenario: `{name}`")));
            }
        }
        Ok(())
    }

    fn apply(&mut self, selection: Selection<'_>) {
        let is_selected =
            |names: &[String], name: &String| names.is_empty() || names.contains(name);
        self.scenarios.retain(|it| {
            let mut names = it.group.iter().chain([&it.name]);
            names.any(|name| is_selected(selection.scenarios, name))
        });
        let quick: Vec<&String> = self
            .contenders
            .iter()
            .filter(|it| it.quick || !selection.quick || selection.contenders.contains(&it.name))
            .map(|it| &it.name)
            .collect();
        for scenario in &mut self.scenarios {
            if let Some(names) = &scenario.quick
                && selection.quick
            {
                scenario.contenders.clone_from(names);
            }
            scenario
                .contenders
                .retain(|name| is_selected(selection.contenders, name) && quick.contains(&name));
        }
        self.scenarios
            .retain(|scenario| !scenario.contenders.is_empty());
        let is_used = |name: &String| {
            *name == self.subject
                || self
                    .scenarios
                    .iter()
                    .any(|scenario| scenario.contenders.contains(name))
        };
        self.contenders.retain(|it| is_used(&it.name));
    }

    pub(super) fn contender(&self, name: &str) -> Option<&Contender> {
        self.contenders.iter().find(|it| it.name == name)
    }

    /// Number of measurements in one round.
    pub(super) fn measurement_count(&self) -> usize {
        self.scenarios.iter().map(|it| it.contenders.len()).sum()
    }
}

impl UsageError {
    pub(crate) fn new(message: String) -> Self {
        Self(message)
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIOS: &str = include_str!("../../../../bench/scenarios.toml");
    const CONTENDERS: &str = include_str!("../../../../bench/contenders.toml");

    impl BenchPlan {
        /// The plan in the folder `bench`.
        pub(in super::super) fn shipped() -> Self {
            Self::parse(SCENARIOS, CONTENDERS, Selection::default()).unwrap()
        }
    }

    #[test]
    fn the_shipped_files_are_valid() {
        let plan = BenchPlan::shipped();
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
    fn the_request_head_is_as_long_as_that_of_a_browser() {
        let BrowserRequest { query, fields, .. } = BenchPlan::shipped().browser;
        let lines: usize = fields.iter().map(|line| line.len() + 2).sum();
        let head = "GET /? HTTP/1.1\r\nHost: www.example.com\r\n\r\n".len();
        let length = head + query.len() + lines;
        assert!((600..=900).contains(&length), "{length}");
        assert!(fields.iter().any(|line| line.starts_with("Cookie: _ga=")));
    }

    #[test]
    fn a_selection_removes_all_other_scenarios_and_contenders() {
        let (names, scenarios) = (["h2o".to_owned()], ["post-br".to_owned()]);
        let selection = Selection {
            quick: true,
            contenders: &names,
            scenarios: &scenarios,
        };
        let plan = BenchPlan::parse(SCENARIOS, CONTENDERS, selection).unwrap();
        assert_eq!((plan.scenarios.len(), plan.measurement_count()), (1, 1));
        // The subject is kept: the other measurements need it.
        let names: Vec<&str> = plan.contenders.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["galley", "h2o"]);
        let group = ["http3".to_owned()];
        let of_group = Selection {
            scenarios: &group,
            ..Selection::default()
        };
        let plan = BenchPlan::parse(SCENARIOS, CONTENDERS, of_group).unwrap();
        let in_group = plan.scenarios.iter().filter(|it| it.group.is_some());
        assert_eq!((in_group.count(), plan.scenarios.len()), (6, 6));
        let quick = Selection {
            quick: true,
            ..Selection::default()
        };
        let quick = BenchPlan::parse(SCENARIOS, CONTENDERS, quick).unwrap();
        assert!(quick.contender("caddy").is_none() && quick.contender("varnish").is_some());
    }

    #[test]
    fn unknown_keys_and_names_are_errors() {
        let misspelled = SCENARIOS.replacen("php_workers", "php_worker", 1);
        let unknown = SCENARIOS.replacen("\"nginx-recipe2\"", "\"nginx-recipe9\"", 1);
        let names = ["varnich".to_owned()];
        let rows = [
            (misspelled.as_str(), &[][..], "php_worker"),
            (&unknown, &[], "nginx-recipe9"),
            (SCENARIOS, &names, "varnich"),
        ];
        for (text, contenders, expected) in rows {
            let selection = Selection {
                contenders,
                ..Selection::default()
            };
            let error = BenchPlan::parse(text, CONTENDERS, selection).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
