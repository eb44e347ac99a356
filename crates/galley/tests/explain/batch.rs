//! `POST /why/batch` and the dry run of `POST /purge`: many pages in one question, and nothing changes.

use galley_testkit::client::Request;
use galley_testkit::wait_for;
use serde_json::{Value, json};

use crate::support::{A, SERVER, Stage, TIMEOUT};

fn post(stage: &Stage, path: &str, body: &Value, token: &str) -> Value {
    let request = Request::post(path, "application/json", body.to_string());
    let answer = stage.admin(request, token);
    serde_json::from_slice(&answer.body).unwrap()
}

fn warm(stage: &Stage, path: &str) {
    wait_for(path, TIMEOUT, || stage.get(path).is_hit());
}

#[test]
fn one_question_tells_of_many_pages() {
    let stage = Stage::start("");
    warm(&stage, "/page/");
    stage.get("/session/");
    let urls = [
        "http://a.test/page/",
        "http://a.test/other/",
        "http://a.test/session/",
        "http://x.b.test/",
    ];
    let answer = post(&stage, "/why/batch", &json!({ "urls": urls }), A);
    let pages = answer["pages"].as_array().unwrap();
    let told: Vec<_> = pages.iter().map(|page| page["what"].as_str()).collect();
    assert_eq!(told[..3], [Some("hit"), Some("miss"), Some("pass")]);
    assert!(pages[0]["age_s"].is_u64(), "{answer}");
    let why = pages[2]["why"].as_str().unwrap();
    assert!(
        why.contains("PHPSESSID") && !why.contains("topsecret"),
        "{why}"
    );
    assert!(
        pages[3]["what"].is_null() && pages[3]["error"].is_string(),
        "another's site: {answer}"
    );
    let many: Vec<_> = (0..201).map(|n| format!("http://a.test/{n}")).collect();
    let refused = post(&stage, "/why/batch", &json!({ "urls": many }), A);
    assert_eq!(refused["ok"], false);
    let stranger = post(&stage, "/why/batch", &json!({ "urls": urls }), "wrong");
    assert_eq!(stranger["ok"], false);
}

#[test]
fn a_dry_run_counts_what_the_purge_then_takes() {
    let stage = Stage::start("");
    // By the length of its path each has one of seven tags.
    let pages = ["/a/", "/b/", "/a/b/", "/a/b/?x=1", "/aa/", "/a/b/c/d/e/"];
    for (body, wanted) in [
        (json!({ "all": true }), 6),
        (json!({ "tags": ["t3"] }), 2),
        (json!({ "tags": ["t3", "t5"] }), 4),
        (json!({ "tags": ["none"] }), 0),
        (json!({ "urls": ["http://a.test/a/b/"] }), 1),
        (json!({ "urls": ["/a/b/?x=1", "/a/"] }), 2),
        (json!({ "prefixes": ["/a"] }), 4),
        (json!({ "patterns": ["^/[ab]/$"] }), 2),
    ] {
        for page in pages {
            warm(&stage, page);
        }
        let mut dry = body.clone();
        dry["dry_run"] = json!(true);
        let answer = post(&stage, "/purge", &dry, A);
        assert_eq!(answer["pages"], wanted, "{body}: {answer}");
        assert_eq!(answer["complete"], true);
        assert!(pages.iter().all(|page| stage.get(page).is_hit()), "{body}");
        post(&stage, "/purge", &body, A);
        assert_eq!(
            post(&stage, "/purge", &dry, A)["pages"],
            0,
            "{body}: purged pages are none"
        );
        let gone = pages.iter().filter(|page| !stage.get(page).is_hit());
        assert_eq!(gone.count(), wanted, "{body}");
    }
    let foreign = json!({ "site": "x.b.test", "all": true, "dry_run": true });
    assert_eq!(post(&stage, "/purge", &foreign, A)["ok"], false);
    assert_eq!(post(&stage, "/purge", &foreign, SERVER)["pages"], 0);
}
