//! `galley why` predicts the next response: generated requests and purges, for both presets.

use std::time::Duration;

use galley_testkit::client::{Request, Response};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::Value;

use crate::support::{SERVER, Stage};

type Field = (&'static str, &'static str);

/// One step of a run.
#[derive(Clone, Debug)]
enum Step {
    Request {
        method: &'static str,
        target: &'static str,
        fields: Vec<Field>,
    },
    Purge(&'static str),
}

fn step() -> impl Strategy<Value = Step> {
    let method = prop_oneof![
        12 => Just("GET"),
        3 => Just("HEAD"),
        1 => select(vec!["POST", "OPTIONS", "TRACE", "PURGE", "FOO"]),
    ];
    let fields = prop_oneof![
        4 => Just(Vec::new()),
        4 => proptest::collection::vec(select(FIELDS.to_vec()), 1..3),
    ];
    let request =
        (method, select(TARGETS.to_vec()), fields).prop_map(|(method, target, mut fields)| {
            // Two lines of one name would be a list.
            fields.dedup_by_key(|(name, _)| *name);
            Step::Request {
                method,
                target,
                fields,
            }
        });
    prop_oneof![
        9 => request,
        1 => select(PURGES.to_vec()).prop_map(Step::Purge),
    ]
}

const TARGETS: &[&str] = &[
    "/",
    "/one/",
    "/one/?utm_source=x",
    "/one/?preview=true",
    "/brief/",
    "/stale/",
    "/fallback/",
    "/private/",
    "/session/",
    "/nocache/",
    "/expired/",
    "/teapot/",
    "/moved/",
    "/languages/",
    "/search/",
    "/search/?a=1",
    "/search/?a=2",
    "/empty/",
    "/never/x",
    "/free/x",
    "/closed/x",
    "/old/x",
    "/style.css",
    "/.env",
    "/folder",
    "/wp-admin/",
    "/wp-login.php",
];

const FIELDS: &[Field] = &[
    ("Cookie", "_ga=1"),
    ("Cookie", "member_1=x"),
    ("Cookie", "wordpress_logged_in_0=x"),
    ("Range", "bytes=0-3"),
    ("If-Range", "\"x\""),
    ("Authorization", "Basic eDp5"),
    ("Accept-Language", "de"),
    ("Accept-Language", "en"),
    ("Accept", "application/json"),
    ("Accept-Encoding", "gzip"),
    ("Cache-Control", "no-cache"),
    ("Cache-Control", "no-store"),
    ("Cache-Control", "max-age=0"),
    ("Cache-Control", "max-stale"),
    ("Cache-Control", "only-if-cached"),
    ("X-Requested-With", "XMLHttpRequest"),
    ("Origin", "https://other.test"),
    ("If-None-Match", "\"x\""),
    ("CDN-Loop", "other"),
    ("Upgrade", "websocket"),
];

const PURGES: &[&str] = &[
    r#"{"urls":["http://a.test/one/"]}"#,
    r#"{"urls":["http://a.test/languages/"],"soft":true}"#,
    r#"{"site":"a.test","tags":["t5"],"soft":true}"#,
    r#"{"site":"a.test","tags":["t1"]}"#,
];

const SITE: &str = "bypass_cookies = [\"member*\"]\n\
    [[site.rule]]\npath = \"/never*\"\ncache = false\n\
    [[site.rule]]\npath = \"/free*\"\nignore = [\"cookie\"]\n\
    [[site.rule]]\npath = \"/closed*\"\ndeny = [\"127.0.0.0/8\"]\n\
    [[site.rule]]\npath = \"/old*\"\nredirect = \"/one/\"\n";

/// What `Cache-Status` says, in the words of `now`: `hit`, `miss uri-miss`, `pass cookie`, `refused denied`.
fn observed(answer: &Response) -> String {
    let members = answer.cache_status();
    let parameter = |name: &str| {
        let mut all = members.split("; ");
        all.find_map(|one| one.strip_prefix(name)?.strip_prefix('='))
    };
    let detail = parameter("detail").unwrap_or_default();
    match parameter("fwd") {
        Some(why @ ("uri-miss" | "stale")) => {
            let is_purged = why == "stale" && detail == "purged" && members.contains("; stored");
            format!("miss {}", if is_purged { "purged" } else { why })
        }
        Some(_) => format!("pass {detail}"),
        None if members.contains("; hit") && detail.is_empty() => "hit".to_owned(),
        None if members.contains("; hit") => format!("stale {detail}"),
        None if ["file", "redirect", "purge"].contains(&detail) => detail.to_owned(),
        None => format!("refused {detail}"),
    }
}

fn predicted(why: &Value) -> String {
    let text = |name: &str| why["now"][name].as_str().unwrap_or_default().to_owned();
    format!("{} {}", text("what"), text("why"))
        .trim()
        .to_owned()
}

fn check(stage: &Stage, method: &str, target: &str, fields: &[Field]) -> Result<(), String> {
    let mut fields = fields.to_vec();
    if fields.iter().any(|(name, _)| *name == "Upgrade") {
        fields.push(("Connection", "upgrade"));
    }
    let why = stage.why_of(method, &format!("http://a.test{target}"), &fields);
    let mut request = Request::new(method, target);
    for (name, value) in &fields {
        request = request.field(name, *value);
    }
    let answer = stage.ask(request);
    let (wanted, came) = (predicted(&why), observed(&answer));
    // RFC 9211 calls a purged response stale, and where the new one was not stored, the detail says why it was not.
    let is_unsaid = wanted == "miss purged"
        && came == "miss stale"
        && !answer.cache_status().contains("; stored");
    if wanted == came || is_unsaid {
        return Ok(());
    }
    Err(format!(
        "{method} {target} {fields:?}: why says `{wanted}`, the response `{came}` ({}): {why}",
        answer.cache_status()
    ))
}

fn run(preset: &str) {
    let stage = Stage::start(&format!("preset = \"{preset}\"\n{SITE}"));
    let mut runner = TestRunner::deterministic();
    let steps = step();
    let mut seen = std::collections::BTreeMap::new();
    for number in 0..STEPS {
        let step = steps.new_tree(&mut runner).unwrap().current();
        match step {
            Step::Purge(body) => {
                let request = Request::post("/purge", "application/json", body);
                let answer = stage.admin(request, SERVER);
                assert_eq!(answer.status, 200, "{body}: {}", answer.text());
            }
            Step::Request {
                method,
                target,
                fields,
            } => {
                // A background fetch may end between the question and the request, or a marker expire. What is wrong by
                // itself stays so.
                let mut tries = (0..TRIES).map(|_| {
                    let tried = check(&stage, method, target, &fields);
                    std::thread::sleep(PAUSE);
                    tried
                });
                let mut last = Ok(());
                let settled = tries.any(|tried| {
                    last = tried;
                    last.is_ok()
                });
                assert!(settled, "{preset}, step {number}: {last:?}");
                let word =
                    predicted(&stage.why_of(method, &format!("http://a.test{target}"), &fields));
                *seen.entry(word).or_insert(0) += 1;
            }
        }
    }
    // The property says little about decisions that the steps do not come to.
    assert!(seen.len() >= 10, "{seen:?}");
}

#[test]
fn why_predicts_the_next_response_with_the_wordpress_preset() {
    run("wordpress");
}

#[test]
fn why_predicts_the_next_response_without_a_preset() {
    run("none");
}

const STEPS: usize = 400;
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(10);
