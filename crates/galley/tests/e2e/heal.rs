//! Pages that name a generated file which is gone are generated again, and no client can have other pages generated.

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite};

/// The lab prints its address, so this page names that file.
const PAGE: &str = "/page/?style=/wp-content/cache/a.css";
const FILE: &str = "/wp-content/cache/a.css";

fn site() -> TestSite {
    let site = SiteBuilder::php()
        .more("[site.ttl]\ndefault = \"1h\"")
        .start();
    site.head(FILE, &["Status: 404", "Cache-Control: max-age=60"]);
    for page in [PAGE, "/other/"] {
        site.get(page).assert_status(200);
        assert!(site.get(page).is_hit());
    }
    site
}

fn miss(site: &TestSite, file: &str, referer: &str) {
    let asked = site.send(Request::get(file).field("Referer", referer));
    asked.assert_status(404);
}

fn healed(site: &TestSite) -> String {
    let socket = site.galley.admin().unwrap();
    let socket = socket.strip_prefix("unix:").unwrap();
    let output = std::process::Command::new("curl")
        .args(["-s", "--unix-socket", socket, "http://galley/metrics"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("galley_pages_refreshed_total{"))
        .unwrap();
    line.rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn a_page_whose_generated_file_is_gone_is_fetched_again_once() {
    let site = site();
    let referer = format!("http://{HOST}{PAGE}");
    miss(&site, &format!("{FILE}?ver=7"), &referer);
    wait_for("the page to be composed anew", TIMEOUT, || {
        site.runs("/page/") == 2
    });
    // Until it is stored, the old copy answers.
    wait_for("the new page", TIMEOUT, || {
        site.get(PAGE).text().contains("run=2")
    });
    assert!(site.get(PAGE).is_hit());
    // What was answered about the file is forgotten too: it may be there again.
    let before = site.runs(FILE);
    miss(&site, &format!("{FILE}?ver=7"), &referer);
    assert_eq!(site.runs(FILE), before + 1);
    // Not again for ten minutes: the purge would have come before the answer.
    assert!(site.get(PAGE).is_hit());
    assert_eq!(healed(&site), "1");
    assert!(site.get("/other/").is_hit());
}

#[test]
fn what_a_stranger_says_refreshes_nothing() {
    let site = site();
    let own = format!("http://{HOST}");
    site.head("/file.css", &["Status: 404"]);
    site.head("/wp-content/a.png", &["Status: 404"]);
    for (file, referer) in [
        (FILE, format!("{own}/other/")),
        (FILE, format!("{own}/nobody-asked/")),
        (FILE, format!("http://elsewhere.test{PAGE}")),
        (FILE, format!("http://{HOST}:81{PAGE}")),
        (FILE, PAGE.to_owned()),
        (FILE, format!("http://user@{HOST}{PAGE}")),
        (FILE, format!("{own}{PAGE}#{}", "x".repeat(5000))),
        (FILE, format!("{own}/wp-admin/")),
        (FILE, String::new()),
        ("/file.css", format!("{own}/other/?style=/file.css")),
        ("/wp-content/a.png", format!("{own}{PAGE}")),
    ] {
        miss(&site, file, &referer);
    }
    assert!(site.get(PAGE).is_hit());
    assert!(site.get("/other/").is_hit());
    assert_eq!((site.runs("/page/"), site.runs("/other/")), (1, 1));
    assert_eq!(healed(&site), "0");
}
