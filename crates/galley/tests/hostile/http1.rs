//! Each case of `http1.txt` at the running server: the right statuses, the right end, and nothing at the upstream or in
//! the cache that should not be there.

use galley_testkit::Nginx;
use galley_testkit::client::Request;

use crate::case::{Case, cases, host, recorded, recorded_version};
use crate::drive::{Outcome, TIMEOUT, run};
use crate::stage::{Peer, Php, Stage};
use crate::table::keep_golden;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/http1.txt");

/// The file of cases as it is now: it may have been recorded a moment ago.
pub fn file() -> String {
    std::fs::read_to_string(PATH).unwrap()
}

#[test]
fn every_case_is_answered_as_it_says() {
    let cases = cases(&file());
    assert!(cases.len() >= 120, "{} cases", cases.len());
    let stage = Stage::start(cases.len());
    let mut complaints = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let outcome = run(stage.addr(), case, number, TIMEOUT, || stage.echo.take());
        complain(&mut complaints, case, &outcome);
        complaints.extend(stored(&stage, case, number, &outcome));
        stage.echo.take();
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    // No stranger makes the operator's log.
    let log = stage.galley.log();
    assert!(
        !log.contains("panic") && !log.contains(" error ") && !log.contains(" warn "),
        "{log}"
    );
}

#[test]
fn every_case_is_answered_alike_with_php() {
    let cases = cases(&file());
    let php = Php::start(cases.len());
    let mut complaints = Vec::new();
    for (number, case) in cases.iter().enumerate().filter(|(_, case)| case.with_php) {
        let outcome = run(php.galley.addr(), case, number, TIMEOUT, || php.take());
        complain(&mut complaints, case, &outcome);
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// With `UPDATE_GOLDEN` set the answers are recorded, by whatever nginx there is.
#[test]
fn nginx_answers_as_the_file_says() {
    let file = file();
    let version = Nginx::version().unwrap();
    let is_recording = std::env::var_os("UPDATE_GOLDEN").is_some();
    if !is_recording && version != recorded_version(&file) {
        eprintln!(
            "not compared: this is {version}, recorded was {}",
            recorded_version(&file)
        );
        return;
    }
    let cases = cases(&file);
    let peer = Peer::start(cases.len());
    let answers: Vec<String> = cases
        .iter()
        .enumerate()
        .map(|(number, case)| {
            let waits = case
                .nginx
                .as_ref()
                .is_none_or(|line| line.contains("waits"));
            let timeout = if waits { WAITS } else { TIMEOUT };
            run(peer.nginx.addr(), case, number, timeout, || {
                peer.echo.take()
            })
            .text()
        })
        .collect();
    keep_golden(PATH, &file, &recorded(&file, &version, &answers));
}

/// For how long nginx keeps a connection open before it counts as waiting for more. What is recorded as an end is waited
/// for with timeout.
const WAITS: std::time::Duration = std::time::Duration::from_secs(2);

fn complain(complaints: &mut Vec<String>, case: &Case, outcome: &Outcome) {
    if !outcome.fits(case) {
        complaints.push(format!(
            "{}: {} ({}); right is {:?}",
            case.name,
            outcome.text(),
            case.rfc,
            case.right
        ));
    }
}

/// The next visitor gets from these addresses what a clean request generates, and gets it from the cache only if
/// the case had it generated.
fn stored(stage: &Stage, case: &Case, number: usize, outcome: &Outcome) -> Vec<String> {
    let mut complaints = Vec::new();
    for path in ["/a", "/smuggled", "/b"] {
        let answer = Request::get(path).host(&host(number)).send(stage.addr());
        let answer = answer.unwrap();
        let clean = format!("GET {path} \"\"");
        let was_composed = outcome.seen.contains(&clean);
        if answer.status != 200 || answer.text() != clean || (answer.is_hit() && !was_composed) {
            complaints.push(format!(
                "{}: the next visitor of {path} gets {}",
                case.name,
                answer.beginning()
            ));
        }
    }
    complaints
}
