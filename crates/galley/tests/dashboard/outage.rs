//! PHP stops: the dashboard, `galley status` and the status say so within seconds, also if no visitor needs PHP meanwhile.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use galley_testkit::client::Request;
use galley_testkit::{Chromium, FpmOptions, Galley, PhpFpm, Scratch, Tab, wait_for};

use crate::browser::{main_text, open_dashboard};
use crate::support::{Dashboard, TIMEOUT};

/// The state that the head of every view shows.
fn state(tab: &mut Tab<'_>) -> String {
    let state = tab.evaluate("document.querySelector('#state').innerText");
    state.unwrap().as_str().unwrap().to_owned()
}

/// The first line of `galley status` with `options`, its whole output and its exit code.
fn status_with(galley: &Galley, token: &Path, options: &[&str]) -> (String, String, Option<i32>) {
    let admin = galley.admin().unwrap();
    let token = token.to_str().unwrap();
    let arguments = ["status", "--admin", &admin, "--token-file", token];
    let output = Command::new(env!("CARGO_BIN_EXE_galley"))
        .args(arguments)
        .args(options)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().next().unwrap_or_default().to_owned();
    (first, text, output.status.code())
}

fn status(galley: &Galley, token: &Path) -> (String, String, Option<i32>) {
    status_with(galley, token, &[])
}

/// The exit code of the health check of containers.
fn health_check(galley: &Galley, token: &Path) -> Option<i32> {
    status_with(galley, token, &["--serving"]).2
}

#[test]
fn a_stopped_php_turns_dashboard_and_status_red_within_five_seconds() {
    let scratch = Scratch::new().unwrap();
    let root = scratch.join("root");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("index.php"), "<?php echo 'page';").unwrap();
    let mut php = PhpFpm::start(&scratch.join("php"), &FpmOptions::default()).unwrap();
    let token = scratch.write("token", "some-token-0123456789").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let text = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n\
         [[site]]\nhosts = [\"a.test\"]\nroot = \"{}\"\nphp = \"{}\"\n",
        token.display(),
        root.display(),
        php.address(),
    );
    let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
    let galley = Galley::start_binary(binary, &scratch.join("galley"), &text).unwrap();
    let get = || {
        Request::get("/")
            .host("a.test")
            .send(galley.addr())
            .unwrap()
    };
    assert_eq!(get().status, 200);
    let mut dashboard = Dashboard::start(&galley.admin().unwrap(), &token);
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = open_dashboard(&mut browser, &mut dashboard);
    assert_eq!(state(&mut tab), "✓ OK");
    assert!(main_text(&mut tab).contains("Visitors are served."));
    let (first, _, code) = status(&galley, &token);
    assert_eq!((first.as_str(), code), ("ok: Visitors are served", Some(0)));

    php.kill();
    let stopped = Instant::now();
    tab.wait("document.querySelector('#state').innerText.includes('Failing')")
        .unwrap();
    let noticed = stopped.elapsed();
    assert!(
        noticed < Duration::from_secs(5),
        "noticed after {noticed:?}"
    );
    let shown = main_text(&mut tab);
    assert!(
        shown.contains(&php.address()) && shown.contains("What to do:"),
        "{shown}"
    );
    let title = tab.evaluate("document.title").unwrap();
    assert_eq!(title, "✗ Overview – Galley");
    let (first, text, code) = status(&galley, &token);
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(health_check(&galley, &token), Some(1));
    assert!(
        first.starts_with("failing: Visitors get errors: No response from unix:"),
        "{text}"
    );
    assert!(
        text.contains("os error") && text.contains("what to do: "),
        "{text}"
    );

    php.restart().unwrap();
    tab.wait("document.querySelector('#state').innerText.includes('OK')")
        .unwrap();
    assert_eq!(get().status, 200);
    assert_errors_are_named(&galley, &token, &root);
}

/// A page that fails is no outage of PHP: its errors are the problem.
fn assert_errors_are_named(galley: &Galley, token: &Path, root: &Path) {
    fs::write(root.join("broken.php"), "<?php http_response_code(500);").unwrap();
    for _ in 0..20 {
        let request = Request::get("/broken.php").host("a.test");
        assert_eq!(request.send(galley.addr()).unwrap().status, 500);
    }
    wait_for("the errors in the status", TIMEOUT, || {
        let (first, _, code) = status(galley, token);
        code == Some(1) && first.contains("responses in the last two minutes were errors")
    });
    // With fewer errors than other responses the server is degraded, and a container healthy.
    for number in 0..40 {
        let path = format!("/?page={number}");
        let request = Request::get(&path).host("a.test");
        assert_eq!(request.send(galley.addr()).unwrap().status, 200);
    }
    wait_for("a degraded server", TIMEOUT, || {
        status(galley, token).0.starts_with("degraded: ")
    });
    assert_eq!(status(galley, token).2, Some(1));
    assert_eq!(health_check(galley, token), Some(0));
}
