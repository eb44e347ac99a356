//! The rules of a draft as statements, so that rules that were added to the draft also get requests.

use galley_import::{
    ServedConfiguration, ServedStatement, StatementOrigin, StatementPaths, StatementSubject,
};
use toml::{Table, Value};

/// The rules of all sites; none if the configuration is invalid.
pub(super) fn of_draft(draft: &str) -> ServedConfiguration {
    let draft_table: Table = draft.parse().unwrap_or_default();
    let mut served = ServedConfiguration::default();
    for site in list(&draft_table, "site") {
        let hosts: Vec<String> = texts(site, "hosts")
            .filter(|host| !host.contains('*'))
            .collect();
        for rule in list(site, "rule") {
            for subject in subjects(rule) {
                served.statements.push(ServedStatement {
                    text: String::new(),
                    origin: StatementOrigin {
                        file: "".into(),
                        line: 0,
                    },
                    subject,
                    hosts: hosts.clone(),
                    is_tls: None,
                    paths: paths(rule),
                });
            }
        }
    }
    served
}

fn paths(rule: &Table) -> StatementPaths {
    let text = |name: &str| rule.get(name).and_then(Value::as_str);
    match (text("path"), text("pattern")) {
        (Some(path), _) => StatementPaths::of_rule_path(path),
        (None, Some(pattern)) => StatementPaths::of_rule_pattern(pattern),
        (None, None) => StatementPaths::Unknown,
    }
}

fn subjects(rule: &Table) -> Vec<StatementSubject> {
    let mut subjects = vec![StatementSubject::Section];
    if rule.contains_key("allow") || rule.contains_key("deny") {
        let networks = texts(rule, "allow").chain(texts(rule, "deny"));
        // A network with all addresses includes the anonymous client, which is tested in any case.
        subjects.push(StatementSubject::Access(
            networks.filter(|one| !one.ends_with("/0")).collect(),
        ));
    }
    if rule.contains_key("redirect") {
        subjects.push(StatementSubject::Redirect);
    }
    subjects
}

fn list<'t>(table: &'t Table, name: &str) -> impl Iterator<Item = &'t Table> {
    let values = table.get(name).and_then(Value::as_array);
    values.into_iter().flatten().filter_map(Value::as_table)
}

fn texts<'t>(table: &'t Table, name: &str) -> impl Iterator<Item = String> + use<'t> {
    let values = table.get(name).and_then(Value::as_array);
    values
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_statements_about_their_paths() {
        let draft = "[[site]]\nhosts = ['a.test', '*.b.test']\n[[site.rule]]\npath = '/a*'\ndeny = ['10.0.0.0/8', '::/0']\n\
            [[site.rule]]\npattern = '^/b$'\nredirect = '/c'\n";
        let found = of_draft(draft).statements;
        let subjects: Vec<_> = found.iter().map(|one| one.subject.clone()).collect();
        let networks = StatementSubject::Access(vec!["10.0.0.0/8".to_owned()]);
        let section = StatementSubject::Section;
        assert_eq!(
            subjects,
            [
                section.clone(),
                networks,
                section,
                StatementSubject::Redirect
            ]
        );
        assert_eq!(found[0].hosts, ["a.test"]);
        assert!(found[0].paths.matches("/ab") && found[2].paths.matches("/b"));
        assert!(
            of_draft("no = ").statements.is_empty() && of_draft("site = 1").statements.is_empty()
        );
    }
}
