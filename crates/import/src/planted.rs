//! Wrong translations, planted into a draft one at a time: the comparison takes the label from a statement because of each.

use std::path::{Path, PathBuf};

use crate::draft::{Draft, RuleDraft, Value};
use crate::report::{Report, StatementOutcome};
use crate::source::Source;

/// The same text for every file but `.htaccess`.
struct OneFile(&'static str);

impl Source for OneFile {
    fn text(&self, path: &Path) -> Option<String> {
        (!path.ends_with(".htaccess")).then(|| self.0.to_owned())
    }

    fn matching(&self, _: &Path) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// A conversion whose draft the last argument changes before it is compared.
pub(crate) type ConvertWith =
    fn(&dyn Source, &Path, &mut Report, &mut dyn FnMut(Draft) -> Draft) -> Draft;

/// A wrong translation: what is wrong, and the draft with it. `None`: the draft has no such part.
type Plant = (&'static str, fn(&mut Vec<RuleDraft>, usize) -> Option<()>);

/// A configuration, and the conversion of its server.
#[derive(Clone, Copy)]
pub(crate) struct PlantedServer {
    pub convert: ConvertWith,
    pub text: &'static str,
}

impl PlantedServer {
    /// The lines of the statements that are carried or not needed.
    fn settled(self, mut change: impl FnMut(Draft) -> Draft) -> Vec<usize> {
        let mut report = Report::default();
        (self.convert)(
            &OneFile(self.text),
            Path::new("/n/main"),
            &mut report,
            &mut change,
        );
        let statements = report.into_statements().into_iter();
        let settled =
            statements.filter(|one| !matches!(one.outcome, StatementOutcome::NotCarried(_)));
        settled.map(|one| one.origin.line).collect()
    }

    /// Plants each wrong translation into each rule. Returns their number.
    pub fn rules_lose_labels(self) -> usize {
        let mut rules = Vec::new();
        let right = self.settled(|draft| {
            rules.clone_from(&draft.sites[0].rules);
            draft
        });
        let plants = (0..rules.len()).flat_map(|at| PLANTS.iter().map(move |plant| (at, plant)));
        let existing = plants.filter(|(at, (_, plant))| plant(&mut rules.clone(), *at).is_some());
        let (mut planted, mut missed) = (0, Vec::new());
        for (at, (name, plant)) in existing {
            planted += 1;
            let wrong = self.settled(|mut draft| {
                plant(&mut draft.sites[0].rules, at);
                draft
            });
            if wrong.len() >= right.len() {
                let section = &rules[at].section;
                let paths = section.text("path").or(section.text("pattern"));
                missed.push(format!("{name}: {}", paths.unwrap_or_default()));
            }
        }
        assert!(
            missed.is_empty(),
            "{} of {planted} are missed:\n{}",
            missed.len(),
            missed.join("\n")
        );
        planted
    }

    /// Plants wrong options into the site.
    pub fn options_lose_labels(self, options: &[(&str, Value)]) {
        let right = self.settled(|draft| draft);
        for (option, value) in options {
            let wrong = self.settled(|mut draft| {
                draft.sites[0].section.set(option, value.clone(), None);
                draft
            });
            assert!(wrong.len() < right.len(), "{option}");
        }
    }
}

const PLANTS: &[Plant] = &[
    ("a rule is missing", |rules, at| {
        (at < rules.len()).then(|| drop(rules.remove(at)))
    }),
    ("nobody is denied", |rules, at| remove(rules, at, "deny")),
    ("everybody is allowed", |rules, at| {
        remove(rules, at, "allow")
    }),
    ("no password", |rules, at| remove(rules, at, "basic_auth")),
    ("another network is denied", |rules, at| {
        set(
            rules,
            at,
            "deny",
            Value::List(vec!["198.51.100.0/24".to_owned()]),
        )
    }),
    ("another network is allowed", |rules, at| {
        set(
            rules,
            at,
            "allow",
            Value::List(vec!["203.0.113.0/24".to_owned()]),
        )
    }),
    ("another status of denials", |rules, at| {
        rules.get(at)?.section.get("deny")?;
        let section = &mut rules.get_mut(at)?.section;
        section.set("deny_status", Value::Verbatim("410".to_owned()), None);
        Some(())
    }),
    ("other methods", |rules, at| {
        set(rules, at, "methods", Value::List(vec!["POST".to_owned()]))
    }),
    ("no redirect", |rules, at| remove(rules, at, "redirect")),
    ("another target", |rules, at| {
        set(rules, at, "redirect", Value::Text("/elsewhere/".to_owned()))
    }),
    ("another status", |rules, at| {
        set(
            rules,
            at,
            "redirect_status",
            Value::Verbatim("308".to_owned()),
        )
    }),
    ("no upstream", |rules, at| remove(rules, at, "upstream")),
    ("another upstream", |rules, at| {
        set(
            rules,
            at,
            "upstream",
            Value::List(vec!["http://127.0.0.1:1".to_owned()]),
        )
    }),
    ("no fields", |rules, at| remove(rules, at, "set_headers")),
    ("another field", |rules, at| {
        set(
            rules,
            at,
            "set_headers",
            Value::List(vec!["X-Other: one".to_owned()]),
        )
    }),
    ("a wider path", |rules, at| {
        let path = rules.get(at)?.section.text("path")?;
        let wider = format!("{}*", path.get(..3)?);
        set(rules, at, "path", Value::Text(wider))
    }),
    ("a narrower path", |rules, at| {
        let path = rules
            .get(at)?
            .section
            .text("path")?
            .trim_end_matches('*')
            .to_owned();
        set(rules, at, "path", Value::Text(format!("{path}z*")))
    }),
    ("a pattern for nothing", |rules, at| {
        rules.get(at)?.section.text("pattern")?;
        set(rules, at, "pattern", Value::Text("^/zzz$".to_owned()))
    }),
    ("a pattern for everything", |rules, at| {
        let section = &rules.get(at)?.section;
        section
            .text("pattern")
            .filter(|_| section.settings.len() > 1)?;
        set(rules, at, "pattern", Value::Text("^/()".to_owned()))
    }),
];

fn remove(rules: &mut [RuleDraft], at: usize, option: &str) -> Option<()> {
    let section = &mut rules.get_mut(at)?.section;
    section.get(option)?;
    section.remove(option);
    Some(())
}

/// Replaces an option, and keeps its place and origins.
fn set(rules: &mut [RuleDraft], at: usize, option: &str, value: Value) -> Option<()> {
    let section = &mut rules.get_mut(at)?.section;
    let setting = section
        .settings
        .iter_mut()
        .find(|setting| setting.name == option)?;
    setting.value = value;
    Some(())
}
