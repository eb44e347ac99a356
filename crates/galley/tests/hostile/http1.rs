//! Sends each case of `http1.txt` to the running server and checks the statuses, the state of the connection, and the
//! requests that reach the upstream and the cache.

use galley_testkit::Nginx;
use galley_testkit::client::Request;

use crate::case::{Case, host, parse_cases, recorded_nginx_version, with_nginx_results};
use crate::client::{CaseResult, TIMEOUT, run};
use crate::documentation_table::check_golden;
use crate::servers::{GalleyWithEcho, GalleyWithPhp, NginxWithEcho};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/http1.txt");

/// The case file, read again because another test may have recorded it.
pub fn read_file() -> String {
    std::fs::read_to_string(PATH).unwrap()
}

#[test]
fn every_case_has_the_expected_result() {
    let cases = parse_cases(&read_file());
    assert!(cases.len() >= 120, "{} cases", cases.len());
    let server = GalleyWithEcho::start(cases.len());
    let mut problems = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let result = run(server.addr(), case, number, TIMEOUT, || server.echo.take());
        check_result(&mut problems, case, &result);
        problems.extend(check_stored(&server, case, number, &result));
        server.echo.take();
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    // Clients cannot cause errors or warnings in the log.
    let log = server.galley.log();
    assert!(
        !log.contains("panic") && !log.contains(" error ") && !log.contains(" warn "),
        "{log}"
    );
}

#[test]
fn every_case_has_the_expected_result_with_php_fpm() {
    let cases = parse_cases(&read_file());
    let php = GalleyWithPhp::start(cases.len());
    let mut problems = Vec::new();
    for (number, case) in cases.iter().enumerate().filter(|(_, case)| case.with_php) {
        let result = run(php.galley.addr(), case, number, TIMEOUT, || php.take());
        check_result(&mut problems, case, &result);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// With `UPDATE_GOLDEN` set, the test records the results of the installed nginx.
#[test]
fn nginx_has_the_recorded_results() {
    let file = read_file();
    let version = Nginx::version().unwrap();
    let is_recording = std::env::var_os("UPDATE_GOLDEN").is_some();
    if !is_recording && version != recorded_nginx_version(&file) {
        eprintln!(
            "not compared: installed is {version}, recorded is {}",
            recorded_nginx_version(&file)
        );
        return;
    }
    let cases = parse_cases(&file);
    let nginx = NginxWithEcho::start(cases.len());
    let results: Vec<String> = cases
        .iter()
        .enumerate()
        .map(|(number, case)| {
            let is_waiting = case
                .nginx
                .as_ref()
                .is_none_or(|line| line.contains("waits"));
            let timeout = if is_waiting { NGINX_WAIT } else { TIMEOUT };
            run(nginx.server.addr(), case, number, timeout, || {
                nginx.echo.take()
            })
            .text()
        })
        .collect();
    check_golden(PATH, &file, &with_nginx_results(&file, &version, &results));
}

/// How long nginx keeps a connection open before it counts as waiting. For a recorded close, the test waits for [`TIMEOUT`].
const NGINX_WAIT: std::time::Duration = std::time::Duration::from_secs(2);

fn check_result(problems: &mut Vec<String>, case: &Case, result: &CaseResult) {
    if !result.matches(case) {
        problems.push(format!(
            "{}: {} ({}); expected {:?}",
            case.name,
            result.text(),
            case.rfc,
            case.expected
        ));
    }
}

/// Checks that the next client gets the response to a clean request from these paths, and gets a hit only if the case
/// caused that request.
fn check_stored(
    server: &GalleyWithEcho,
    case: &Case,
    number: usize,
    result: &CaseResult,
) -> Vec<String> {
    let mut problems = Vec::new();
    for path in ["/a", "/smuggled", "/b"] {
        let response = Request::get(path).host(&host(number)).send(server.addr());
        let response = response.unwrap();
        let clean = format!("GET {path} \"\"");
        let was_fetched = result.received.contains(&clean);
        if response.status != 200 || response.text() != clean || (response.is_hit() && !was_fetched)
        {
            problems.push(format!(
                "{}: the next client gets {} from {path}",
                case.name,
                response.excerpt(),
            ));
        }
    }
    problems
}
