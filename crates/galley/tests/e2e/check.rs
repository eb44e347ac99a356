//! `galley check` foretells what `galley run` meets, in the same output_text, and changes nothing.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use galley_testkit::{Scratch, runs_as_root};

use crate::support::{SiteBuilder, binary, output_text};

/// Somebody whom every Debian has, and who has nothing to do with Galley.
const GAMES: u32 = 5;

/// A folder with a site, and a configuration of lines for it.
struct Case {
    scratch: Scratch,
    file: PathBuf,
}

impl Case {
    /// `{dir}` becomes the folder.
    fn new(text: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        scratch.dir("root").unwrap();
        scratch.write("root/index.php", "<?php").unwrap();
        let mut case = Self {
            file: scratch.join("galley.toml"),
            scratch,
        };
        case.configure(text);
        case
    }

    fn configure(&mut self, text: &str) {
        let dir = self.scratch.path().to_str().unwrap();
        let text = format!("{text}\n[[site]]\nhosts = [\"a.test\"]\nroot = \"{{dir}}/root\"\n");
        fs::write(&self.file, text.replace("{dir}", dir)).unwrap();
    }

    fn run(&self, command: &str) -> Output {
        // A server that starts after all would never end.
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

    /// `check` and `run` both end with `code` and exactly these words. `{dir}` is the folder.
    fn expect(&self, code: i32, wanted: &str) {
        self.expect_of(&["check", "run"], code, wanted);
    }

    fn expect_of(&self, commands: &[&str], code: i32, wanted: &str) {
        let dir = self.scratch.path().to_str().unwrap();
        let wanted = wanted.trim_start().replace("{dir}", dir);
        for &command in commands {
            let output = self.run(command);
            let said = String::from_utf8(output.stderr.clone()).unwrap();
            // What `run` has logged before stands above it.
            let complaint = said.find("error: `").map_or("", |at| &said[at..]);
            assert_eq!(complaint.trim_end(), wanted.trim_end(), "{command}: {said}");
            assert!(command == "run" || complaint == said, "{said}");
            assert_eq!(output.status.code(), Some(code), "{command}: {said}");
            assert!(
                output.stdout.is_empty(),
                "{command}: {}",
                output_text(&output)
            );
        }
    }

    fn expect_in_order(&self) {
        let output = self.run("check");
        let said = output_text(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("is in order"), "{said}");
    }
}

#[test]
fn a_user_and_a_group_must_exist() {
    let mut case = Case::new("[server]\nlisten = [\"127.0.0.1:0\"]\nuser = \"no-such-user\"");
    case.expect(
        2,
        r#"
error: `server.user` is `no-such-user`, but there is no such user
 --> {dir}/galley.toml:3:8
  |
3 | user = "no-such-user"
  |        ^^^^^^^^^^^^^^
  |
  = help: name an existing one, or create it: `useradd --system --no-create-home no-such-user`
"#,
    );
    case.configure(
        "[server]\nlisten = [\"127.0.0.1:0\"]\nuser = \"games\"\ngroup = \"no-such-group\"",
    );
    case.expect(
        2,
        r#"
error: `server.group` is `no-such-group`, but there is no such group
 --> {dir}/galley.toml:4:9
  |
4 | group = "no-such-group"
  |         ^^^^^^^^^^^^^^^
  |
  = help: name an existing one, or create it: `groupadd --system no-such-group`
"#,
    );
}

#[test]
fn a_disk_must_be_a_folder() {
    let case =
        Case::new("[server]\nlisten = [\"127.0.0.1:0\"]\n[cache]\ndisk = \"{dir}/root/index.php\"");
    let dir = "{dir}/root/index.php";
    let marks = "^".repeat(case.scratch.join("root/index.php").to_str().unwrap().len() + 2);
    // Galley itself serves without it: `the_server_works_without_disk_if_the_cache_directory_is_unusable`.
    case.expect_of(
        &["check"],
        2,
        &format!(
            r#"
error: `cache.disk` is `{dir}`, which is not a folder, so no page would survive a restart
 --> {{dir}}/galley.toml:4:8
  |
4 | disk = "{dir}"
  |        {marks}
  |
  = help: name a folder, which Galley creates if it does not exist, or leave the option out
"#
        ),
    );
}

#[test]
fn a_port_that_another_program_has_is_named_with_its_line() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap();
    let case = Case::new(&format!(
        "[server]\nlisten = [\"127.0.0.1:0\", \"{taken}\"]"
    ));
    let marks = "^".repeat(taken.to_string().len() + 2);
    case.expect(
        1,
        &format!(
            r#"
error: `server.listen` is `{taken}`, where another program listens: Address already in use (os error 98)
 --> {{dir}}/galley.toml:2:26
  |
2 | listen = ["127.0.0.1:0", "{taken}"]
  |                          {marks}
  |
  = help: stop the other program (`ss -ltnp` shows it), or write another address
"#
        ),
    );
    drop(other);
    case.expect_in_order();
}

#[test]
fn an_address_of_another_machine_is_named_with_its_line() {
    // Of the networks for documentation (RFC 5737), and a site's own list.
    let mut case = Case::new("");
    let text = "[server]\nlisten = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"b.test\"]\nroot = \"{dir}/root\"\nlisten = [\"192.0.2.1:8080\"]";
    case.configure(text);
    case.expect(
        1,
        r#"
error: `site.listen` is `192.0.2.1:8080`, an address that this machine does not have
 --> {dir}/galley.toml:6:11
  |
6 | listen = ["192.0.2.1:8080"]
  |           ^^^^^^^^^^^^^^^^
  |
  = help: write one of those that `ip address` shows, or `0.0.0.0` for all
"#,
    );
}

#[test]
fn an_admin_socket_needs_a_free_place_in_a_folder_of_its_own() {
    let mut case =
        Case::new("[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:/etc/passwd\"");
    let blamed = |path: &str, why: &str| {
        let marks = "^".repeat(path.len() + 7);
        format!(
            r#"
error: `admin.listen` is `unix:{path}`, which cannot be opened: {why}
 --> {{dir}}/galley.toml:4:10
  |
4 | listen = "unix:{path}"
  |          {marks}
  |
  = help: name a socket in a folder that belongs to the user that Galley runs as, such as `unix:/run/galley/admin.sock`
"#
        )
    };
    case.expect(
        1,
        &blamed("/etc/passwd", "a file that is not a socket exists there"),
    );
    if !runs_as_root() {
        return;
    }
    let folder = case.scratch.dir("theirs").unwrap();
    chown(&folder, Some(GAMES), Some(GAMES)).unwrap();
    case.configure(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:{dir}/theirs/admin.sock\"",
    );
    let socket = folder.join("admin.sock");
    case.expect(
        1,
        &blamed(
            socket.to_str().unwrap(),
            "its folder belongs to another user",
        ),
    );
    // Of the user that Galley becomes it is the right one.
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(case.scratch.path(), open).unwrap();
    case.configure(
        "[server]\nlisten = [\"127.0.0.1:0\"]\nuser = \"games\"\n[admin]\nlisten = \"unix:{dir}/theirs/admin.sock\"",
    );
    case.expect_in_order();
}

#[test]
fn a_log_that_the_servers_user_may_not_write_is_named() {
    if !runs_as_root() {
        return;
    }
    let case = Case::new(
        "[server]\nlisten = [\"127.0.0.1:0\"]\nuser = \"games\"\n[admin]\nlisten = \"off\"\n[log]\naccess = \"{dir}/logs/access.log\"",
    );
    let folder = case.scratch.dir("logs").unwrap();
    let file = folder.join("access.log");
    let marks = "^".repeat(file.to_str().unwrap().len() + 2);
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(case.scratch.path(), open).unwrap();
    case.expect(
        1,
        &format!(
            r#"
error: `log.access` is `{{dir}}/logs/access.log`, which cannot be written: Permission denied (os error 13)
 --> {{dir}}/galley.toml:7:10
  |
7 | access = "{{dir}}/logs/access.log"
  |          {marks}
  |
  = help: give Galley's user write access, or name another
"#
        ),
    );
}

#[test]
fn a_php_that_cannot_be_started_is_named_with_its_line() {
    let mut case = Case::new("");
    let site = "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"off\"\n[[site]]\nhosts = [\"b.test\"]\nroot = \"{dir}/root\"\nphp = \"managed\"\nphp_binary = \"/bin/false\"";
    case.configure(site);
    for command in ["check", "run"] {
        let output = case.run(command);
        let said = output_text(&output);
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        for wanted in [
            "error: `site.php_binary` is `/bin/false`, which cannot be started: ",
            "galley.toml:9:14\n",
            "  = help: ",
        ] {
            assert!(said.contains(wanted), "{command}: {said}");
        }
    }
}

#[test]
fn a_socket_that_only_systemd_hands_over_is_missed_at_the_start() {
    let case = Case::new("[server]\nlisten = [\"systemd:web\"]");
    case.expect_in_order();
    let output = case.run("run");
    let said = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("error: `server.listen` is `systemd:web`, where Galley cannot listen: systemd has passed 0 socket(s)")
            && said.contains("galley.toml:2:11\n"),
        "{said}"
    );
}

#[test]
fn a_running_galley_of_the_same_configuration_is_no_mistake() {
    let stage = SiteBuilder::files()
        .server("listen = [\"unix:{dir}/web.sock\"]")
        .start();
    let socket = stage.scratch.join("web.sock");
    let checked = stage.galley.cli(&["check"]).unwrap();
    let said = output_text(&checked);
    assert_eq!(checked.status.code(), Some(0), "{said}");
    let note = format!(
        ": `server.listen` is `unix:{}`, where the running Galley of this configuration listens\n",
        socket.display()
    );
    assert!(said.contains(&note), "{said}");
    let spot = format!("note: {}:", stage.galley.config().display());
    assert!(said.contains(&spot), "{said}");
    assert!(said.contains("is in order"), "{said}");
    // It still answers, at the same socket.
    assert!(socket.exists() && stage.status_number("uptime_s") < 3600);
}

/// Every file below a folder, with what tells whether it was touched.
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
fn checking_leaves_nothing_behind() {
    let case = Case::new(
        "[server]\nlisten = [\"127.0.0.1:0\", \"unix:{dir}/web.sock\"]\nspool = \"{dir}/root\"\n[admin]\nlisten = \"unix:{dir}/new/admin.sock\"\n[cache]\ndisk = \"{dir}/cache\"\n[log]\naccess = \"{dir}/access.log\"\nerror = \"{dir}/error.log\"",
    );
    let before = listing(case.scratch.path());
    case.expect_in_order();
    assert_eq!(listing(case.scratch.path()), before);
}
