//! `galley check` reports the same errors as `galley run`, in the same words, and changes nothing.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use galley_testkit::{Scratch, runs_as_root};

use crate::support::{SiteBuilder, binary, output_text};

/// User id of `games`, which exists on every Debian.
const GAMES_USER: u32 = 5;

/// A temporary folder with a document root and a configuration file.
struct ConfigCheck {
    scratch: Scratch,
    file: PathBuf,
}

impl ConfigCheck {
    /// Creates the folder and writes `text`; `{dir}` is replaced by its path.
    fn new(text: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        scratch.dir("root").unwrap();
        scratch.write("root/index.php", "<?php").unwrap();
        let mut check = Self {
            file: scratch.join("galley.toml"),
            scratch,
        };
        check.configure(text);
        check
    }

    fn configure(&mut self, text: &str) {
        let dir = self.scratch.path().to_str().unwrap();
        let text = format!("{text}\n[[site]]\nhosts = [\"a.test\"]\nroot = \"{{dir}}/root\"\n");
        fs::write(&self.file, text.replace("{dir}", dir)).unwrap();
    }

    fn run(&self, command: &str) -> Output {
        // A server that starts despite the error would never exit.
        Command::new("timeout")
            .arg("60")
            .arg(binary())
            .args([command, "--config"])
            .arg(&self.file)
            .env("XDG_RUNTIME_DIR", self.scratch.path())
            .env_remove("RUNTIME_DIRECTORY")
            .output()
            .unwrap()
    }

    /// Asserts that the commands exit with `code` and print exactly one error, about `value` as it is in the file.
    fn assert_error(&self, commands: &[&str], code: i32, value: &str, message: &str, help: &str) {
        let dir = self.scratch.path().to_str().unwrap();
        let [value, message] = [value, message].map(|text| text.replace("{dir}", dir));
        let expected = self.shown(&value, &message, help);
        for &command in commands {
            let output = self.run(command);
            let text = String::from_utf8(output.stderr.clone()).unwrap();
            // `run` may print log records before the error.
            let error = text.find("error: `").map_or("", |at| &text[at..]);
            assert_eq!(error.trim_end(), expected, "{command}: {text}");
            assert!(command == "run" || error == text, "{text}");
            assert_eq!(output.status.code(), Some(code), "{command}: {text}");
            assert!(
                output.stdout.is_empty(),
                "{command}: {}",
                output_text(&output)
            );
        }
    }

    /// An error about a value, with its place in the file.
    fn shown(&self, value: &str, message: &str, help: &str) -> String {
        let text = fs::read_to_string(&self.file).unwrap();
        let (index, line) = text
            .lines()
            .enumerate()
            .find(|(_, line)| line.contains(value))
            .unwrap();
        let (number, column) = (index + 1, line.find(value).unwrap());
        let (indent, marks) = (" ".repeat(column), "^".repeat(value.len()));
        let file = self.file.display();
        format!(
            "error: {message}\n --> {file}:{number}:{}\n  |\n{number} | {line}\n  | {indent}{marks}\n  |\n  = help: {help}",
            column + 1
        )
    }

    fn assert_valid(&self) {
        let output = self.run("check");
        let text = output_text(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains("is in order"), "{text}");
    }
}

const SERVER: &str = "[server]\nlisten = [\"127.0.0.1:0\"]\n";
const BOTH: &[&str] = &["check", "run"];

#[test]
fn errors_are_reported_with_their_line() {
    // `run` starts without a disk cache; `disk_persistence` has the test.
    let table = [
        (
            BOTH,
            2,
            "user = \"no-such-user\"",
            "\"no-such-user\"",
            "`server.user` is `no-such-user`, but there is no such user",
            "name an existing one, or create it: `useradd --system --no-create-home no-such-user`",
        ),
        (
            BOTH,
            2,
            "user = \"games\"\ngroup = \"no-such-group\"",
            "\"no-such-group\"",
            "`server.group` is `no-such-group`, but there is no such group",
            "name an existing one, or create it: `groupadd --system no-such-group`",
        ),
        (
            &["check"][..],
            2,
            "[cache]\ndisk = \"{dir}/root/index.php\"",
            "\"{dir}/root/index.php\"",
            "`cache.disk` is `{dir}/root/index.php`, which is not a folder, so no page would survive a restart",
            "name a folder, which Galley creates if it does not exist, or leave the option out",
        ),
        // `listen` of a site, with an address reserved for documentation (RFC 5737).
        (
            BOTH,
            1,
            "[[site]]\nhosts = [\"b.test\"]\nroot = \"{dir}/root\"\nlisten = [\"192.0.2.1:8080\"]",
            "\"192.0.2.1:8080\"",
            "`site.listen` is `192.0.2.1:8080`, an address that this machine does not have",
            "write one of those that `ip address` shows, or `0.0.0.0` for all",
        ),
    ];
    for (commands, code, lines, value, message, help) in table {
        let check = ConfigCheck::new(&format!("{SERVER}{lines}"));
        check.assert_error(commands, code, value, message, help);
    }
}

#[test]
fn a_port_in_use_is_reported_with_its_line() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap();
    let check = ConfigCheck::new(&format!(
        "[server]\nlisten = [\"127.0.0.1:0\", \"{taken}\"]"
    ));
    check.assert_error(
        BOTH,
        1,
        &format!("\"{taken}\""),
        &format!(
            "`server.listen` is `{taken}`, where another program listens: Address already in use (os error 98)"
        ),
        "stop the other program (`ss -ltnp` shows it), or write another address",
    );
    drop(other);
    check.assert_valid();
}

#[test]
fn the_admin_socket_needs_a_folder_of_the_galley_user() {
    let mut check = ConfigCheck::new(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:/etc/passwd\"",
    );
    let refused = |check: &ConfigCheck, path: &str, why: &str| {
        let address = format!("unix:{path}");
        check.assert_error(
            BOTH,
            1,
            &format!("\"{address}\""),
            &format!("`admin.listen` is `{address}`, which cannot be opened: {why}"),
            "name a socket in a folder that belongs to the user that Galley runs as, such as `unix:/run/galley/admin.sock`",
        );
    };
    refused(
        &check,
        "/etc/passwd",
        "a file that is not a socket exists there",
    );
    if !runs_as_root() {
        return;
    }
    let folder = check.scratch.dir("foreign").unwrap();
    chown(&folder, Some(GAMES_USER), Some(GAMES_USER)).unwrap();
    check.configure(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:{dir}/foreign/admin.sock\"",
    );
    refused(
        &check,
        "{dir}/foreign/admin.sock",
        "its folder belongs to another user",
    );
    // The folder is valid if Galley switches to the user that owns it.
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(check.scratch.path(), open).unwrap();
    check.configure(
        "[server]\nlisten = [\"127.0.0.1:0\"]\nuser = \"games\"\n[admin]\nlisten = \"unix:{dir}/foreign/admin.sock\"",
    );
    check.assert_valid();
}

#[test]
fn a_log_that_the_galley_user_cannot_write_is_reported() {
    if !runs_as_root() {
        return;
    }
    let check = ConfigCheck::new(
        "[server]\nlisten = [\"127.0.0.1:0\"]\nuser = \"games\"\n[admin]\nlisten = \"off\"\n[log]\naccess = \"{dir}/logs/access.log\"",
    );
    check.scratch.dir("logs").unwrap();
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(check.scratch.path(), open).unwrap();
    check.assert_error(
        BOTH,
        1,
        "\"{dir}/logs/access.log\"",
        "`log.access` is `{dir}/logs/access.log`, which cannot be written: Permission denied (os error 13)",
        "give Galley's user write access, or name another",
    );
}

#[test]
fn a_php_binary_that_cannot_start_is_reported_with_its_line() {
    let mut check = ConfigCheck::new("");
    let config = "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"off\"\n[[site]]\nhosts = [\"b.test\"]\nroot = \"{dir}/root\"\nphp = \"managed\"\nphp_binary = \"/bin/false\"";
    check.configure(config);
    for command in ["check", "run"] {
        let output = check.run(command);
        let text = output_text(&output);
        assert_eq!(output.status.code(), Some(1), "{command}: {text}");
        for expected in [
            "error: `site.php_binary` is `/bin/false`, which cannot be started: ",
            "galley.toml:9:14\n",
            "  = help: ",
        ] {
            assert!(text.contains(expected), "{command}: {text}");
        }
    }
}

#[test]
fn check_accepts_systemd_sockets_and_run_reports_missing_ones() {
    let check = ConfigCheck::new("[server]\nlisten = [\"systemd:web\"]");
    check.assert_valid();
    let output = check.run("run");
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("error: `server.listen` is `systemd:web`, where Galley cannot listen: systemd has passed 0 socket(s)")
            && text.contains("galley.toml:2:11\n"),
        "{text}"
    );
}

#[test]
fn check_accepts_sockets_of_the_running_galley_with_this_configuration() {
    let site = SiteBuilder::files()
        .server("listen = [\"unix:{dir}/web.sock\"]")
        .start();
    let socket = site.scratch.join("web.sock");
    let checked = site.galley.cli(&["check"]).unwrap();
    let text = output_text(&checked);
    assert_eq!(checked.status.code(), Some(0), "{text}");
    let note = format!(
        ": `server.listen` is `unix:{}`, where the running Galley of this configuration listens\n",
        socket.display()
    );
    assert!(text.contains(&note), "{text}");
    let location = format!("note: {}:", site.galley.config().display());
    assert!(text.contains(&location), "{text}");
    assert!(text.contains("is in order"), "{text}");
    // The running server still listens on the socket.
    assert!(socket.exists() && site.status_number("uptime_s") < 3600);
}

/// Every file below a folder with its modification time.
fn listing(dir: &Path) -> Vec<(PathBuf, std::time::SystemTime)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        if found.is_dir() {
            all.extend(listing(&path));
        }
        all.push((path, found.modified().unwrap()));
    }
    all.sort();
    all
}

#[test]
fn check_creates_and_changes_no_files() {
    let check = ConfigCheck::new(
        "[server]\nlisten = [\"127.0.0.1:0\", \"unix:{dir}/web.sock\"]\nspool = \"{dir}/root\"\n[admin]\nlisten = \"unix:{dir}/new/admin.sock\"\n[cache]\ndisk = \"{dir}/cache\"\n[log]\naccess = \"{dir}/access.log\"\nerror = \"{dir}/error.log\"",
    );
    let before = listing(check.scratch.path());
    check.assert_valid();
    assert_eq!(listing(check.scratch.path()), before);
}

/// Where no cache can be, whatever the rights of the user.
#[test]
fn the_disk_cache_is_not_on_a_file_system_of_the_kernel_or_below_a_file() {
    for (disk, why) in [
        ("/proc/x", "`proc` is a view into the kernel"),
        ("/sys/galley", "`sysfs` is a view into the kernel"),
        ("{dir}/root/index.php/cache", "is not a folder"),
        ("{dir}/dangling", "is not a folder"),
    ] {
        let check = ConfigCheck::new(&format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n[cache]\ndisk = \"{disk}\""
        ));
        let link = check.scratch.join("dangling");
        std::os::unix::fs::symlink("/no/such/folder", link).unwrap();
        let output = check.run("check");
        let text = output_text(&output);
        assert_eq!(output.status.code(), Some(2), "{disk}: {text}");
        assert!(
            text.contains("cache.disk") && text.contains(why),
            "{disk}: {text}"
        );
    }
}

#[test]
fn the_root_of_a_site_with_php_is_not_a_folder_of_wordpress_itself() {
    let check = ConfigCheck::new("[server]\nlisten = [\"127.0.0.1:0\"]");
    check.scratch.dir("root/wp-includes").unwrap();
    check.scratch.dir("root/wp-content/uploads").unwrap();
    check.scratch.dir("root/another").unwrap();
    check.scratch.write("root/wp-load.php", "<?php").unwrap();
    let text = fs::read_to_string(&check.file).unwrap();
    for (folder, code) in [
        ("", 0),
        ("/another", 0),
        ("/wp-content", 2),
        ("/wp-content/uploads", 2),
    ] {
        let own = format!("/root{folder}\"\nphp = \"unix:/no/such.sock\"");
        fs::write(&check.file, text.replace("/root\"", &own)).unwrap();
        let output = check.run("check");
        let told = output_text(&output);
        assert_eq!(output.status.code(), Some(code), "{folder}: {told}");
        let named = format!("write `root = \"{}/root\"`", check.scratch.path().display());
        assert_eq!(told.contains(&named), code == 2, "{told}");
    }
}
