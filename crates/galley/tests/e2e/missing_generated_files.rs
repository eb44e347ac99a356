//! A page that references a missing generated file is fetched again; forged requests cannot refresh other pages.

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite};

/// The test page prints its URI, so this page references [`FILE`].
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

/// Requests a missing file with this `Referer`.
fn request_missing(site: &TestSite, file: &str, referer: &str) {
    let response = site.send(Request::get(file).field("Referer", referer));
    response.assert_status(404);
}

fn refreshed_pages(site: &TestSite) -> String {
    let text = site.metrics();
    let line = text
        .lines()
        .find(|line| line.starts_with("galley_pages_refreshed_total{"))
        .unwrap();
    line.rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn a_page_with_a_missing_generated_file_is_fetched_again_once() {
    let site = site();
    let referer = format!("http://{HOST}{PAGE}");
    request_missing(&site, &format!("{FILE}?ver=7"), &referer);
    wait_for("the page to be generated again", TIMEOUT, || {
        site.runs("/page/") == 2
    });
    // The old page is a hit until the new one is stored.
    wait_for("the new page to be stored", TIMEOUT, || {
        site.get(PAGE).text().contains("run=2")
    });
    assert!(site.get(PAGE).is_hit());
    // The response for the file has been purged too, because the file may exist again.
    let before = site.runs(FILE);
    request_missing(&site, &format!("{FILE}?ver=7"), &referer);
    assert_eq!(site.runs(FILE), before + 1);
    // No second refresh within ten minutes: it would have purged the page before the response was sent.
    assert!(site.get(PAGE).is_hit());
    assert_eq!(refreshed_pages(&site), "1");
    assert!(site.get("/other/").is_hit());
}

#[test]
fn a_forged_referer_refreshes_nothing() {
    let site = site();
    let origin = format!("http://{HOST}");
    site.head("/file.css", &["Status: 404"]);
    site.head("/wp-content/a.png", &["Status: 404"]);
    for (file, referer) in [
        (FILE, format!("{origin}/other/")),
        (FILE, format!("{origin}/nobody-asked/")),
        (FILE, format!("http://elsewhere.test{PAGE}")),
        (FILE, format!("http://{HOST}:81{PAGE}")),
        (FILE, PAGE.to_owned()),
        (FILE, format!("http://user@{HOST}{PAGE}")),
        (FILE, format!("{origin}{PAGE}#{}", "x".repeat(5000))),
        (FILE, format!("{origin}/wp-admin/")),
        (FILE, String::new()),
        ("/file.css", format!("{origin}/other/?style=/file.css")),
        ("/wp-content/a.png", format!("{origin}{PAGE}")),
    ] {
        request_missing(&site, file, &referer);
    }
    assert!(site.get(PAGE).is_hit());
    assert!(site.get("/other/").is_hit());
    assert_eq!((site.runs("/page/"), site.runs("/other/")), (1, 1));
    assert_eq!(refreshed_pages(&site), "0");
}
