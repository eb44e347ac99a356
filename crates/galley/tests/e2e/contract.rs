//! The contract with purge plugins: each row of `contract/*.json` is sent to the running server. The response must be the one that
//! the plugin expects, the pages that the row names must be purged, and all other pages must stay in the cache.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use galley_policy::purge::DIALECTS;
use galley_testkit::client::{Request, Response};
use galley_testkit::wait_for;
use serde_json::Value;

use crate::support::{SiteBuilder, TIMEOUT, TestSite, page_value};

/// Defines a test for each file, and the list of files.
macro_rules! files {
    ($($name:ident $file:literal)*) => {
        $(#[test]
        fn $name() {
            ContractFile::read($file).run();
        })*

        const FILES: &[&str] = &[$($file),*];
    };
}

files! {
    fastly "fastly"
    galley_plugin "galley"
    litespeed_cache "litespeed-cache"
    nginx_helper "nginx-helper"
    without_options_requests_are_not_accepted "not-asked"
    proxy_cache_purge "proxy-cache-purge"
    the_purge_secret_authorizes_requests "secret"
    souin "souin"
    unauthorized_clients_are_refused "strangers"
    vcaching "vcaching"
    w3_total_cache "w3-total-cache"
    wordpress_vip "wordpress-vip"
    wp_rocket "wp-rocket"
    xkey "xkey"
}

#[test]
fn every_file_has_a_test_and_every_dialect_has_a_row() {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            all.insert(name.clone(), ContractFile::read(&name));
        }
    }
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(names, {
        let mut tested = FILES.to_vec();
        tested.sort_unstable();
        tested
    });
    for dialect in DIALECTS {
        let has_row = all
            .values()
            .flat_map(ContractFile::rows)
            .any(|row| row["dialect"] == dialect.name && row["status"].as_u64() < Some(300));
        assert!(
            has_row,
            "no row of the contract has the dialect `{}`",
            dialect.name
        );
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../contract")
}

/// A file of the contract.
struct ContractFile(Value);

impl ContractFile {
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
        let mut builder = SiteBuilder::php()
            .workers(4)
            .log("error = \"{dir}/error.log\"");
        for line in strings(&self.0["site"]) {
            builder = builder.site(line);
        }
        if let Some(secret) = self.0["secret"].as_str() {
            let path = builder.scratch.write("purge.secret", secret).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let site = builder.start();
        for list in ["pages", "never"] {
            for (page, lines) in self.0[list].as_object().into_iter().flatten() {
                let path = page.split('?').next().unwrap();
                site.head(path, &strings(lines));
            }
        }
        site
    }

    fn run(&self) {
        let site = self.start();
        for page in self.0["never"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(page, _)| page)
        {
            for _ in 0..3 {
                let response = site.get(page).expect_status(200);
                assert!(!response.is_hit(), "{page}: {}", response.cache_status());
                self.assert_stripped(page, &response);
            }
        }
        for row in self.rows() {
            self.run_row(&site, row);
        }
    }

    /// Fills the cache, carries out the row, and checks which pages are still stored.
    fn run_row(&self, site: &TestSite, row: &Value) {
        let name = row["name"].as_str().unwrap();
        let runs: BTreeMap<&str, String> = self
            .pages()
            .into_iter()
            .map(|page| (page, self.fill(site, page)))
            .collect();
        let logged_before = logged_purges(site).len();
        carry_out(site, row);
        let purges = logged_purges(site);
        match row["dialect"].as_str() {
            Some(dialect) if row["status"].as_u64() < Some(300) => {
                let expected = format!(" dialect={dialect}");
                assert!(purges.len() > logged_before, "{name}: no purge was logged");
                assert!(
                    purges[logged_before..]
                        .iter()
                        .all(|line| line.ends_with(&expected)),
                    "{name}: {purges:?}"
                );
            }
            _ => assert_eq!(purges.len(), logged_before, "{name}: {purges:?}"),
        }
        let mut named: Vec<&str> = Vec::new();
        for page in strings(&row["kept"]) {
            named.push(page);
            let response = site.get(page);
            assert!(
                response.is_hit(),
                "{name}: {page} was purged: {}",
                response.cache_status()
            );
            assert_eq!(
                page_value(&response.text(), "run"),
                runs[page],
                "{name}: {page}"
            );
        }
        for page in strings(&row["stale"]) {
            named.push(page);
            let response = site.get(page);
            let status = response.cache_status();
            assert!(
                status.contains("detail=revalidating"),
                "{name}: {page}: {status}"
            );
            assert_eq!(
                page_value(&response.text(), "run"),
                runs[page],
                "{name}: {page}"
            );
            wait_for(&format!("the refresh of {page}"), TIMEOUT, || {
                page_value(&site.get(page).text(), "run") != runs[page]
            });
        }
        for page in strings(&row["purged"]) {
            named.push(page);
            let response = site.get(page);
            assert!(
                !response.is_hit(),
                "{name}: {page} was not purged: {}",
                response.cache_status()
            );
            assert_ne!(
                page_value(&response.text(), "run"),
                runs[page],
                "{name}: {page}"
            );
            assert!(
                self.fill(site, page) != runs[page],
                "{name}: {page} is not stored again"
            );
        }
        let mut all = self.pages();
        all.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, all, "{name}: the row must name every page once");
    }

    /// Requests the page until it is a hit, and returns the number of its PHP run.
    fn fill(&self, site: &TestSite, page: &str) -> String {
        let mut run = String::new();
        wait_for(&format!("{page} to be a hit"), TIMEOUT, || {
            let response = site.get(page).expect_status(200);
            self.assert_stripped(page, &response);
            page_value(&response.text(), "run").clone_into(&mut run);
            response.is_hit()
        });
        run
    }

    fn assert_stripped(&self, page: &str, response: &Response) {
        for name in strings(&self.0["stripped"]) {
            assert!(
                !response.has(name),
                "{page} has {name}: {}",
                response.excerpt()
            );
        }
    }
}

/// Carries out a row and checks the response.
fn carry_out(site: &TestSite, row: &Value) {
    let name = row["name"].as_str().unwrap();
    let response = if let Some(lines) = row["send"].as_array() {
        let lines: Vec<&str> = lines.iter().map(|line| line.as_str().unwrap()).collect();
        let body = row["body"].as_str().unwrap_or_default();
        let bytes = format!("{}\r\n\r\n{body}", lines.join("\r\n"));
        let mut connection = site.connect();
        connection.write(bytes.as_bytes()).unwrap();
        connection
            .receive(lines[0].split(' ').next().unwrap())
            .unwrap()
    } else if row["remove"] == true {
        return remove_watched_files(site);
    } else {
        site.head("/edit/", &strings(&row["answer"]));
        site.send(Request::form("/edit/", &[("title", "new")]))
    };
    let head = response.excerpt();
    assert_eq!(
        u64::from(response.status),
        row["status"].as_u64().unwrap(),
        "{name}: {head}"
    );
    for (field, value) in row["fields"].as_object().into_iter().flatten() {
        assert_eq!(response.field(field), value.as_str(), "{name}: {head}");
    }
    if let Some(text) = row["text"].as_str() {
        assert!(response.text().contains(text), "{name}: {head}");
    }
    for field in strings(&row["absent"]) {
        assert!(!response.has(field), "{name}: {head}");
    }
}

/// Removes the files in the watched folder and waits for the purge, since no response confirms it.
fn remove_watched_files(site: &TestSite) {
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
        "Galley did not create its file again"
    );
}

/// The purge requests that the server has logged so far. It logs each one before it responds.
fn logged_purges(site: &TestSite) -> Vec<String> {
    let log = fs::read_to_string(site.scratch.join("error.log")).unwrap();
    let lines = log
        .lines()
        .filter(|line| line.contains("purged by request"));
    lines.map(str::to_owned).collect()
}

fn strings(list: &Value) -> Vec<&str> {
    let list = list.as_array().into_iter().flatten();
    list.map(|text| text.as_str().unwrap()).collect()
}
