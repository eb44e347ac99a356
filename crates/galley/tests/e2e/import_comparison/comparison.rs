//! Comparisons of real servers with Galley.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use galley_testkit::{Signal, skip};

use super::differences::{
    APACHE_DIFFERENCES, COMMON_DIFFERENCES, NGINX_DIFFERENCES, REDIRECT_DIFFERENCES,
};
use super::draft::{ManualStep, PlantedDifference};
use super::site::OldSite;
use super::{apache, caddy, nginx, varnish};
use crate::support::output_text;

/// Plants the common differences and `more`.
fn assert_all_differences_found(site: &OldSite, steps: &[ManualStep], more: &[PlantedDifference]) {
    let differences: Vec<&PlantedDifference> = REDIRECT_DIFFERENCES
        .iter()
        .chain(COMMON_DIFFERENCES)
        .chain(more)
        .collect();
    assert!(
        differences.len() >= 50,
        "only {} differences",
        differences.len()
    );
    assert_differences_found(site, steps, &differences, 500);
}

/// Checks that the report is empty for the draft once its owner has done what the import lists as not carried, so that no other statement
/// causes a difference; and complete when all differences are planted at once.
fn assert_differences_found(
    site: &OldSite,
    steps: &[ManualStep],
    differences: &[&PlantedDifference],
    min_requests: u64,
) {
    let dir = site.scratch.path().to_str().unwrap();
    let mut draft = site.finished_draft(steps);
    let plain = site.try_draft(&draft);
    let lines = plain.lines();
    assert!(
        lines.is_empty() && plain.code == Some(0),
        "{:?}\n{lines}",
        plain.code
    );
    let requests = plain.report["requests"].as_u64().unwrap();
    assert!(requests > min_requests, "only {requests} requests");

    for difference in differences {
        draft.apply(&difference.edit, dir);
    }
    let found = site.try_draft(&draft);
    let missed: Vec<&str> = differences
        .iter()
        .filter(|difference| !difference.expected.is_in(&found.report))
        .map(|difference| difference.name)
        .collect();
    assert!(
        missed.is_empty(),
        "not found: {missed:#?}\n{}",
        found.lines()
    );
    assert_eq!(found.code, Some(1));
}

#[test]
fn every_difference_from_nginx_is_found_and_no_other() {
    let site = OldSite::new("nginx.conf", &nginx::configuration(), "different");
    assert_all_differences_found(&site, nginx::STEPS, NGINX_DIFFERENCES);
}

#[test]
fn every_difference_from_apache_is_found_and_no_other() {
    let site = OldSite::new("apache2.conf", &apache::configuration(), "alike");
    assert_all_differences_found(&site, apache::STEPS, APACHE_DIFFERENCES);
}

/// Whether a program is installed; prints a note if not. `scripts/setup test` installs it.
fn is_installed(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/usr/local/sbin";
    let is_installed = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !is_installed {
        skip(&format!("{program} is not installed"));
    }
    is_installed
}

#[test]
fn every_difference_from_caddy_is_found_and_no_other() {
    if is_installed("caddy") {
        let site = OldSite::new("Caddyfile", caddy::CONFIGURATION, "alike");
        let differences = REDIRECT_DIFFERENCES.iter().chain(caddy::DIFFERENCES);
        assert_differences_found(&site, caddy::STEPS, &differences.collect::<Vec<_>>(), 300);
    }
}

#[test]
fn every_difference_from_varnish_is_found_and_no_other() {
    if is_installed("varnishd") {
        let backend = varnish::backend();
        let port = backend.addr().port().to_string();
        let text = varnish::CONFIGURATION.replace("{backend}", &port);
        let site = OldSite::new("default.vcl", &text, "alike");
        let differences: Vec<_> = varnish::DIFFERENCES.iter().collect();
        assert_differences_found(&site, varnish::STEPS, &differences, 100);
    }
}

#[test]
fn the_text_report_names_the_statement_and_the_remedy() {
    let site = small_site();
    let draft = site.draft().to_string().replace("/new/", "/elsewhere/");
    let draft = site.scratch.write("draft.toml", draft).unwrap();
    let output = site.import(&["--try", "--draft", draft.to_str().unwrap()]);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for expected in [
        "redirect\n  http://shop.test/new/ is http://shop.test/elsewhere/ at Galley",
        "    try:  curl -i 'http://shop.test/old'\n",
        "nginx.conf:8  return 301 /new/\n",
        "    do:   carried as redirect: compare it in the draft.",
        "port 8081 is 127.0.0.1:",
        " responses differ, for ",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
}

#[test]
fn requests_are_taken_from_a_log_a_sitemap_and_links() {
    let site = small_site();
    let line = |request: &str| {
        format!(
            "192.0.2.1 - - [10/Oct/2026:13:55:00 +0200] \"{request} HTTP/1.1\" 200 5 \"-\" \"x\"\n"
        )
    };
    let log = line("GET /logged/?a=b") + &line("POST /wp-login.php") + &line("HEAD /css/plain.css");
    let log = site.scratch.write("access.log", log).unwrap();
    let map = "<urlset><url><loc>http://shop.test/mapped/</loc></url><url><loc>http://b.test/</loc></url></urlset>";
    site.scratch.write("root/map.xml", map).unwrap();
    site.scratch
        .write("root/links.html", "<a href=\"/linked/\">a</a>")
        .unwrap();
    // None of the requests that Galley derives from the configuration matches these patterns.
    let rule = |pattern: &str| {
        format!("[[site.rule]]\npattern = '{pattern}'\nset_headers = ['X-Planted: yes']\n")
    };
    let draft = site.draft().to_string();
    let more = rule("^/[k-m]ogged/") + &rule("^/[l-n]apped/") + &rule("^/[k-m]inked/");
    let draft = site.scratch.write("draft.toml", draft + &more).unwrap();
    let found = site.try_with(&[
        "--crawl",
        "--log",
        log.to_str().unwrap(),
        "--sitemap",
        "http://shop.test/map.xml",
        "--draft",
        draft.to_str().unwrap(),
    ]);
    let lines = found.lines();
    for path in ["/logged/?a=b", "/mapped/", "/linked/"] {
        assert!(lines.contains(path), "{path} is not in {lines}");
    }
    let skipped = found.report["skipped"].to_string();
    assert!(
        skipped.contains("1 POST requests") && skipped.contains("1 URLs of the sitemap"),
        "{skipped}"
    );
}

#[test]
fn an_invalid_configuration_or_draft_ends_with_code_2() {
    let site = OldSite::new(
        "nginx.conf",
        &SMALL.replace("index index.php;", "nonsense on;"),
        "alike",
    );
    let output = site.import(&["--try"]);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("unknown directive \"nonsense\""), "{text}");
    let output = small_site().import(&["--try", "--draft", "/nonexistent.toml"]);
    assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
}

#[test]
fn an_interrupt_stops_both_servers_and_removes_their_files() {
    let site = small_site();
    let folder = site.scratch.dir("tmp").unwrap();
    let mut command = site.command(&["--try"]);
    command
        .env("TMPDIR", &folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let started = lines.find(|line| line.as_ref().unwrap().contains("100 of"));
    assert!(
        started.is_some(),
        "the comparison ended before it was interrupted"
    );
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{rest:?}");
    assert!(
        rest.iter().any(|line| line.contains("interrupted")),
        "{rest:?}"
    );
    let leftovers: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
    let folder = folder.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.filter_map(|one| fs::read_to_string(one.path().join("cmdline")).ok());
    let running: Vec<String> = commands.filter(|line| line.contains(folder)).collect();
    assert!(running.is_empty(), "{running:?}");
}

fn small_site() -> OldSite {
    OldSite::new("nginx.conf", SMALL, "alike")
}

/// A minimal configuration with one redirect.
const SMALL: &str = "user www-data;
events {}
http {
include /etc/nginx/mime.types;
server { listen 8081 default_server; server_name shop.test;
root {dir}/root; index index.php; charset utf-8;
location / { try_files $uri /index.php?$args; }
location = /old { return 301 /new/; }
location ~ /\\.(ht|git|env|user) { deny all; }
location ~ /wp-config\\.php { deny all; }
location ~ \\.php$ { try_files $uri /index.php?$args; include /etc/nginx/fastcgi_params;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:{php}; }
}
}
";
