//! How commands find the admin interface of the running server.

use std::process::{Command, Output};

use crate::support::{AssertStatus, HOST, SiteBuilder, TestSite, binary};

fn run(site: &TestSite, arguments: &[&str]) -> (Output, String) {
    let output = site.galley.cli(arguments).unwrap();
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    (output, String::from_utf8(text).unwrap())
}

#[test]
fn commands_reach_the_running_server_despite_an_invalid_file() {
    let site = SiteBuilder::php().start();
    site.get("/page/").assert_status(200);
    let valid = std::fs::read_to_string(site.galley.config()).unwrap();
    let url = format!("http://{HOST}/page/");
    // An error anywhere, and no readable `[admin]`: then the default socket.
    for invalid in [
        format!("{valid}\nno_such_option = 1\n"),
        valid.replace("[admin]\nlisten", "[admin\nlisten"),
        "???".to_owned(),
    ] {
        std::fs::write(site.galley.config(), &invalid).unwrap();
        for arguments in [
            &["status"][..],
            &["purge", "--all"],
            &["why", &url],
            &["status", "--json"],
        ] {
            let (output, text) = run(&site, arguments);
            assert!(output.status.success(), "{arguments:?}: {text}");
            let note = String::from_utf8(output.stderr).unwrap();
            let config = site.galley.config().display().to_string();
            assert!(
                note.contains(&config) && note.contains("error(s)"),
                "{note}"
            );
            assert!(note.contains("admin.sock"), "{note}");
        }
        assert_eq!(run(&site, &["check"]).0.status.code(), Some(2));
    }
    let mut site = site;
    site.galley.stop();
    let (output, text) = run(&site, &["status"]);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("cannot reach the server") && text.contains("???"),
        "{text}"
    );
}

/// `script` of util-linux gives the command a pseudo-terminal.
#[test]
fn the_state_has_a_color_on_a_terminal_only() {
    let site = SiteBuilder::php().start();
    site.get("/page/").assert_status(200);
    let config = site.galley.config().display();
    let call = format!("exec {} status --config {config}", binary().display());
    let colored = "\u{1b}[1;32mok\u{1b}[0m: ";
    for (program, no_color, starts) in [
        ("terminal", None, colored),
        ("terminal", Some(""), colored),
        ("terminal", Some("1"), "ok: "),
        ("pipe", None, "ok: "),
    ] {
        let mut command = if program == "pipe" {
            let mut shell = Command::new("sh");
            shell.args(["-c", &call]);
            shell
        } else {
            let mut script = Command::new("script");
            script.args(["--quiet", "--return", "--command", &call, "/dev/null"]);
            script
        };
        command
            .stdin(std::process::Stdio::null())
            .env_remove("NO_COLOR");
        command.envs(no_color.map(|value| ("NO_COLOR", value)));
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let case = format!("{program}, NO_COLOR {no_color:?}: {text:?}");
        assert!(
            output.status.success() && text.starts_with(starts),
            "{case}"
        );
        let escapes = text.matches('\u{1b}').count();
        assert_eq!(escapes, if starts == colored { 2 } else { 0 }, "{case}");
    }
}

#[test]
fn a_public_address_in_place_of_the_admin_interface_is_told_in_one_line() {
    let page = format!("<html>{}</html>", "a page of the site\n".repeat(2_000));
    let site = SiteBuilder::files()
        .file("status", &page)
        .site("[site.error_pages]\n\"404\" = \"{dir}/root/status\"")
        .start();
    let address = format!("http://{}", site.addr());
    for arguments in [&["status"][..], &["why", "/"], &["purge", "--all"]] {
        let output = Command::new(binary())
            .args(arguments)
            .args(["--admin", &address])
            .output()
            .unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(
            told.contains("is not the admin interface") && told.lines().count() == 1,
            "{told}"
        );
        assert!(output.stdout.is_empty());
    }
}
