//! `galley import`: `galley check` accepts the result, the report counts every statement, and no file is overwritten.

use std::process::{Command, Output};

use galley_testkit::Scratch;
use serde_json::Value;

use crate::support::{binary, output_text};

fn import(arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("import").args(arguments);
    command.output().unwrap()
}

const SITE: &str = "server {
    listen 8081;
    server_name example.test;
    root {dir}/root;
    index index.php index.html;
    client_max_body_size 8m;
    location / { try_files $uri $uri/ /index.php?$args; }
    location ~ \\.php$ { fastcgi_pass unix:{dir}/php.sock; }
    location ^~ /internal/ { deny all; }
    more_clever_module on;
}
";

fn site(scratch: &Scratch) -> String {
    scratch.dir("root").unwrap();
    let dir = scratch.path().to_str().unwrap();
    let file = scratch
        .write("nginx.conf", SITE.replace("{dir}", dir))
        .unwrap();
    file.display().to_string()
}

#[test]
fn an_imported_nginx_configuration_passes_check() {
    let scratch = Scratch::new().unwrap();
    let nginx = site(&scratch);
    let galley = scratch.join("galley.toml").display().to_string();
    let output = import(&["--nginx", &nginx, "--output", &galley]);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let report = output_text(&output);
    assert!(report.contains("1 not carried"), "{report}");
    assert!(
        report.contains("nginx.conf:10: more_clever_module on;"),
        "{report}"
    );
    let text = std::fs::read_to_string(&galley).unwrap();
    for line in [
        "listen = [\"0.0.0.0:8081\"]",
        "request_body = \"8MiB\"",
        "path = \"/internal/*\"",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let check = Command::new(binary())
        .args(["check", "--config", &galley])
        .output()
        .unwrap();
    assert_eq!(
        check.status.code(),
        Some(0),
        "{}\n{text}",
        output_text(&check)
    );
    // A second import does not overwrite the file.
    let again = import(&["--nginx", &nginx, "--output", &galley]);
    assert_eq!(again.status.code(), Some(1), "{}", output_text(&again));
    assert_eq!(std::fs::read_to_string(&galley).unwrap(), text);
}

#[test]
fn the_json_report_has_every_statement() {
    let scratch = Scratch::new().unwrap();
    let nginx = site(&scratch);
    let output = import(&["--nginx", &nginx, "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let statements = value["statements"].as_array().unwrap();
    assert_eq!(statements.len(), 13);
    let count = |name: &str| usize::try_from(value[name].as_u64().unwrap()).unwrap();
    assert_eq!(
        count("carried") + count("not_needed") + count("not_carried"),
        13
    );
    let not_carried = statements
        .iter()
        .find(|one| one["outcome"] == "not-carried")
        .unwrap();
    assert_eq!(
        (&not_carried["line"], &not_carried["statement"]),
        (&10.into(), &"more_clever_module on;".into())
    );
}

#[test]
fn a_missing_file_is_an_error() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path().display().to_string();
    for path in ["/nonexistent/nginx.conf", &folder] {
        for arguments in [vec![path], vec!["--nginx", path]] {
            let output = import(&arguments);
            assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
            assert!(output.stdout.is_empty(), "{}", output_text(&output));
            let text = output_text(&output);
            assert!(text.contains(&format!("cannot read `{path}`")), "{text}");
        }
    }
}

#[test]
fn an_import_that_leaves_something_open_fails() {
    let scratch = Scratch::new().unwrap();
    let text = SITE.replace("{dir}", scratch.path().to_str().unwrap());
    let text = text.replace("more_clever_module on;", "if ($bad_client) { return 403; }");
    scratch.dir("root").unwrap();
    let file = scratch.write("nginx.conf", text).unwrap();
    let output = import(&["--nginx", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    let report = output_text(&output);
    assert!(
        report.contains("2 statements refuse requests that the new configuration serves"),
        "{report}"
    );
}
