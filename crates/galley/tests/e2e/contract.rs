//! The words of plugins, from the wire up: each row of `contract/*.json` is sent to the running server, gets the reply that its
//! sender looks for, has the pages generated again that it names, and leaves the others in the cache.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use galley_policy::purge::DIALECTS;
use galley_testkit::client::{Request, Response};
use galley_testkit::wait_for;
use serde_json::Value;

use crate::support::{SiteBuilder, TIMEOUT, TestSite, page_value};

/// A test for each file, and one that no file is without.
macro_rules! files {
    ($($name:ident $file:literal)*) => {
        $(#[test]
        fn $name() {
            Contract::read($file).hold();
        })*

        const FILES: &[&str] = &[$($file),*];
    };
}

files! {
    fastly "fastly"
    galleys_own "galley"
    litespeed_cache "litespeed-cache"
    nginx_helper "nginx-helper"
    a_site_that_asks_for_nothing "not-asked"
    proxy_cache_purge "proxy-cache-purge"
    who_has_the_secret_may "secret"
    souin "souin"
    strangers_may_not "strangers"
    vcaching "vcaching"
    w3_total_cache "w3-total-cache"
    wordpress_vip "wordpress-vip"
    wp_rocket "wp-rocket"
    xkey "xkey"
}

#[test]
fn every_file_is_held_and_every_dialect_is_in_one() {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            all.insert(name.clone(), Contract::read(&name));
        }
    }
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(names, {
        let mut held = FILES.to_vec();
        held.sort_unstable();
        held
    });
    for dialect in DIALECTS {
        let is_spoken = all
            .values()
            .flat_map(Contract::rows)
            .any(|row| row["dialect"] == dialect.name && row["status"].as_u64() < Some(300));
        assert!(is_spoken, "no row of the contract is `{}`", dialect.name);
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../contract")
}

/// One file.
struct Contract(Value);

impl Contract {
    fn read(name: &str) -> Self {
        let text = fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
        Self(serde_json::from_str(&text).unwrap())
    }

    fn rows(&self) -> impl Iterator<Item = &Value> {
        let rows = self.0["rows"].as_array().unwrap();
        assert!(!rows.is_empty());
        rows.iter()
    }

    fn pages(&self) -> Vec<&str> {
        let pages = self.0["pages"].as_object().unwrap();
        pages.keys().map(String::as_str).collect()
    }

    fn start(&self) -> TestSite {
        let mut plan = SiteBuilder::php()
            .workers(4)
            .log("error = \"{dir}/error.log\"");
        for line in strings(&self.0["site"]) {
            plan = plan.site(line);
        }
        if let Some(secret) = self.0["secret"].as_str() {
            let path = plan.scratch.write("purge.secret", secret).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let site = plan.start();
        for list in ["pages", "never"] {
            for (page, lines) in self.0[list].as_object().into_iter().flatten() {
                let path = page.split('?').next().unwrap();
                site.head(path, &strings(lines));
            }
        }
        site
    }

    fn hold(&self) {
        let site = self.start();
        for page in self.0["never"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(page, _)| page)
        {
            for _ in 0..3 {
                let answer = site.get(page).expect_status(200);
                assert!(!answer.is_hit(), "{page}: {}", answer.cache_status());
                self.is_stripped(page, &answer);
            }
        }
        for row in self.rows() {
            self.happens(&site, row);
        }
    }

    /// One row: pages in, what it says, and which pages are still there.
    fn happens(&self, site: &TestSite, row: &Value) {
        let name = row["name"].as_str().unwrap();
        let runs: BTreeMap<&str, String> = self
            .pages()
            .into_iter()
            .map(|page| (page, self.fill(site, page)))
            .collect();
        let noted = obeyed(site).len();
        act(site, row);
        let obeyed = obeyed(site);
        match row["dialect"].as_str() {
            Some(dialect) if row["status"].as_u64() < Some(300) => {
                let wanted = format!(" dialect={dialect}");
                assert!(obeyed.len() > noted, "{name}: nothing was obeyed");
                assert!(
                    obeyed[noted..].iter().all(|line| line.ends_with(&wanted)),
                    "{name}: {obeyed:?}"
                );
            }
            _ => assert_eq!(obeyed.len(), noted, "{name}: {obeyed:?}"),
        }
        let mut named: Vec<&str> = Vec::new();
        for page in strings(&row["kept"]) {
            named.push(page);
            let answer = site.get(page);
            assert!(
                answer.is_hit(),
                "{name}: {page} is gone: {}",
                answer.cache_status()
            );
            assert_eq!(
                page_value(&answer.text(), "run"),
                runs[page],
                "{name}: {page}"
            );
        }
        for page in strings(&row["stale"]) {
            named.push(page);
            let answer = site.get(page);
            let status = answer.cache_status();
            assert!(
                status.contains("detail=revalidating"),
                "{name}: {page}: {status}"
            );
            assert_eq!(
                page_value(&answer.text(), "run"),
                runs[page],
                "{name}: {page}"
            );
            wait_for(&format!("{page}, composed again"), TIMEOUT, || {
                page_value(&site.get(page).text(), "run") != runs[page]
            });
        }
        for page in strings(&row["purged"]) {
            named.push(page);
            let answer = site.get(page);
            assert!(
                !answer.is_hit(),
                "{name}: {page} is still there: {}",
                answer.cache_status()
            );
            assert_ne!(
                page_value(&answer.text(), "run"),
                runs[page],
                "{name}: {page}"
            );
            assert!(
                self.fill(site, page) != runs[page],
                "{name}: {page} is not kept again"
            );
        }
        let mut all = self.pages();
        all.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, all, "{name}: every page has to be named once");
    }

    /// Asks until the page is a hit; its run.
    fn fill(&self, site: &TestSite, page: &str) -> String {
        let mut run = String::new();
        wait_for(&format!("{page} to be a hit"), TIMEOUT, || {
            let answer = site.get(page).expect_status(200);
            self.is_stripped(page, &answer);
            page_value(&answer.text(), "run").clone_into(&mut run);
            answer.is_hit()
        });
        run
    }

    fn is_stripped(&self, page: &str, answer: &Response) {
        for name in strings(&self.0["stripped"]) {
            assert!(
                !answer.has(name),
                "{page} has {name}: {}",
                answer.beginning()
            );
        }
    }
}

/// Sends, answers, or removes; the reply has to be the one of the row.
fn act(site: &TestSite, row: &Value) {
    let name = row["name"].as_str().unwrap();
    let answer = if let Some(lines) = row["send"].as_array() {
        let lines: Vec<&str> = lines.iter().map(|line| line.as_str().unwrap()).collect();
        let body = row["body"].as_str().unwrap_or_default();
        let bytes = format!("{}\r\n\r\n{body}", lines.join("\r\n"));
        let mut connection = site.connect();
        connection.write(bytes.as_bytes()).unwrap();
        connection
            .receive(lines[0].split(' ').next().unwrap())
            .unwrap()
    } else if row["remove"] == true {
        return empty(site);
    } else {
        site.head("/edit/", &strings(&row["answer"]));
        site.send(Request::form("/edit/", &[("title", "new")]))
    };
    let seen = answer.beginning();
    assert_eq!(
        u64::from(answer.status),
        row["status"].as_u64().unwrap(),
        "{name}: {seen}"
    );
    for (field, value) in row["fields"].as_object().into_iter().flatten() {
        assert_eq!(answer.field(field), value.as_str(), "{name}: {seen}");
    }
    if let Some(text) = row["text"].as_str() {
        assert!(answer.text().contains(text), "{name}: {seen}");
    }
    for field in strings(&row["absent"]) {
        assert!(!answer.has(field), "{name}: {seen}");
    }
}

/// Removes what lies in the watched folder and waits until that was noticed: no reply tells it.
fn empty(site: &TestSite) {
    let folder = site.scratch.join("nginx-cache");
    let purges = site.status_number("purges");
    for entry in fs::read_dir(&folder).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    wait_for("the purge", TIMEOUT, || {
        site.status_number("purges") > purges
    });
    assert!(
        folder.read_dir().unwrap().next().is_some(),
        "nothing to remove the next time"
    );
}

/// What the server has logged of purge requests that it carried out, so far: written before they are answered.
fn obeyed(site: &TestSite) -> Vec<String> {
    let log = fs::read_to_string(site.scratch.join("error.log")).unwrap();
    let lines = log
        .lines()
        .filter(|line| line.contains("purged by request"));
    lines.map(str::to_owned).collect()
}

fn strings(list: &Value) -> Vec<&str> {
    let list = list.as_array().into_iter().flatten();
    list.map(|one| one.as_str().unwrap()).collect()
}
