//! Wrong translations, planted into a draft one at a time: the comparison takes the label from a statement because of each.

use std::path::{Path, PathBuf};

use super::*;

struct OneFile;

impl Source for OneFile {
    fn text(&self, _: &Path) -> Option<String> {
        Some(TEXT.to_owned())
    }

    fn matching(&self, _: &Path) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// A wrong translation: what is wrong, and the draft with it. `None`: the draft has no such part.
type Plant = (&'static str, fn(&mut Vec<RuleDraft>, usize) -> Option<()>);

/// The lines of the statements that are carried or not needed.
fn settled(finish: impl FnOnce(Draft) -> Draft) -> Vec<usize> {
    let mut report = Report::default();
    convert_with(&OneFile, Path::new("/n/main"), &mut report, finish);
    let all = report.into_statements().into_iter();
    let settled = all.filter(|one| !matches!(one.outcome, StatementOutcome::NotCarried(_)));
    settled.map(|one| one.origin.line).collect()
}

#[test]
fn planted_wrong_translations_lose_their_labels() {
    let mut rules = Vec::new();
    let right = settled(|draft| {
        rules.clone_from(&draft.sites[0].rules);
        draft
    });
    let all = (0..rules.len()).flat_map(|at| PLANTS.iter().map(move |plant| (at, plant)));
    let existing = all.filter(|(at, (_, plant))| plant(&mut rules.clone(), *at).is_some());
    let (mut planted, mut missed) = (0, Vec::new());
    for (at, (name, plant)) in existing {
        planted += 1;
        let wrong = settled(|mut draft| {
            plant(&mut draft.sites[0].rules, at);
            draft
        });
        if wrong.len() >= right.len() {
            let section = &rules[at].section;
            let paths = section.text("path").or(section.text("pattern"));
            missed.push(format!("{name}: {}", paths.unwrap_or_default()));
        }
    }
    assert!(planted >= 50, "only {planted}");
    assert!(
        missed.is_empty(),
        "{} of {planted} are missed:\n{}",
        missed.len(),
        missed.join("\n")
    );
}

#[test]
fn planted_wrong_options_of_the_site_lose_their_labels() {
    let right = settled(|draft| draft);
    for (option, value) in [
        ("set_headers", Value::List(vec!["X-Site: other".to_owned()])),
        ("set_headers", Value::List(Vec::new())),
        ("deny", Value::List(vec!["203.0.113.0/24".to_owned()])),
        ("allow", Value::List(vec!["192.0.2.0/24".to_owned()])),
        ("php", Value::Text("127.0.0.1:1".to_owned())),
        ("canonical_host", Value::Text("b.test".to_owned())),
        ("https_redirect", Value::Flag(true)),
        ("basic_auth", Value::Text("/etc/x".to_owned())),
        ("internal", Value::List(vec!["/hello".to_owned()])),
    ] {
        let wrong = settled(|mut draft| {
            draft.sites[0].section.set(option, value, None);
            draft
        });
        assert!(wrong.len() < right.len(), "{option}");
    }
}

/// A server in which each rule decides about some request.
const TEXT: &str = "server {
listen 80;
server_name a.test;
root /srv/a;
index index.php index.html;
add_header X-Site one;
if ($uri ~ ^/forbidden/) {
return 403;
}
rewrite ^/moved/(.*)$ /new/$1 permanent;
rewrite ^/gone/([a-z]+)$ https://b.test/$1 redirect;
location / {
try_files $uri $uri/ /index.php?$args;
}
location ~ \\.php$ {
fastcgi_pass 127.0.0.1:9000;
}
location = /exact.txt {
deny all;
}
location /private/ {
deny all;
}
location ^~ /office/ {
allow 192.0.2.0/24;
deny all;
}
location /blocked/ {
deny 192.0.2.7;
}
location ^~ /members/ {
auth_basic x;
auth_basic_user_file /etc/pw;
}
location ~* \\.(sql|bak)$ {
deny all;
}
location /old/ {
return 301 /new/;
}
location ~ ^/year/([0-9]+)/$ {
return 302 https://b.test/$1;
}
location /api/ {
proxy_pass http://127.0.0.1:3000;
}
location ~ \\.(css|js)$ {
expires 30d;
add_header X-Site one;
}
location /fields/ {
add_header X-Site one;
add_header X-A one;
}
}
";

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
