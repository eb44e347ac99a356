//! Reads the output of Galley's commands.

use std::process::Output;

use super::site::TestSite;

/// The number after the first `"name":`.
pub fn json_number(json: &str, name: &str) -> u64 {
    let rest = json
        .split(&format!("\"{name}\":"))
        .nth(1)
        .unwrap_or_default();
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits
        .parse()
        .unwrap_or_else(|_| panic!("no number `{name}` in {json}"))
}

/// Exit status, standard output and standard error of a command, for messages.
pub fn output_text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// The finding of one check of `galley doctor`.
pub fn doctor_finding(site: &TestSite, check: &str) -> serde_json::Value {
    let output = site.galley.cli(&["doctor", "--json"]).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut findings = value["findings"].as_array().unwrap().iter();
    let finding = findings.find(|finding| finding["check"] == check);
    finding
        .unwrap_or_else(|| panic!("no {check} in {value}"))
        .clone()
}
