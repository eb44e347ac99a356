//! `php_sandbox`: which files, ports and programs a script can use with and without it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use galley_testkit::client::Request;
use galley_testkit::{runs_as_root, skip};

use crate::support::{SiteBuilder, TestSite, account, page_value};

/// Prints for each operation that the code of a site can try whether it succeeded.
const PROBE: &str = r#"<?php
ob_start();
function say($what, $works) { echo $what, '=', $works ? 'yes' : 'no', "\n"; }
function writes($file) { return @file_put_contents($file, 'a') === 1; }
function connects($port) { return (bool) @stream_socket_client('tcp://127.0.0.1:' . $port, $e, $m, 2); }
$uploads = __DIR__ . '/wp-content/uploads';
say('planted', @file_get_contents($_POST['outside'] . '/secret') === 'secret');
say('outside', writes($_POST['outside'] . '/new'));
say('shared', writes($_POST['shared'] . '/new'));
say('code', writes(__DIR__ . '/new.php'));
say('upload', writes("$uploads/a.txt") && rename("$uploads/a.txt", "$uploads/b.txt") && unlink("$uploads/b.txt"));
$temporary = @tempnam(sys_get_temp_dir(), 'galley');
say('temporary', writes($temporary) && @rename($temporary, "$uploads/moved") && unlink("$uploads/moved"));
session_save_path(sys_get_temp_dir());
say('session', @session_start() && session_destroy());
say('listed', connects($_POST['listed']));
say('other', connects($_POST['other']));
say('socket', @stream_socket_client('unix://' . $_POST['socket']));
say('program', trim((string) shell_exec('/bin/echo ran')) === 'ran');
copy('/bin/echo', "$uploads/echo") && chmod("$uploads/echo", 0755);
say('dropped', trim((string) shell_exec("$uploads/echo ran 2>/dev/null")) === 'ran');
say('zone', (new DateTimeZone('Europe/Berlin'))->getOffset(new DateTime('2024-07-01')) === 7200);
say('name', gethostbyname('localhost') === '127.0.0.1');
say('opcache', opcache_get_status(false)['opcache_enabled']);
"#;

/// A folder that PHP's user may read and write, outside of all folders for temporary files, because the sandbox permits those. The
/// build folder can be below one.
struct OutsideFolder(PathBuf);

impl OutsideFolder {
    fn new(name: &str) -> Option<Self> {
        let built = std::env::current_exe().unwrap();
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let candidates = [
            built.parent().map(Path::to_owned),
            home,
            Some("/srv".into()),
        ];
        let name = format!("galley-test-{name}-{}", std::process::id());
        let is_temporary = |candidate: &Path| {
            ["/tmp", "/var/tmp", "/dev/shm"]
                .iter()
                .any(|one| candidate.starts_with(one))
        };
        // As root, PHP runs as another user, who needs access to the folder.
        let is_open = |candidate: &Path| {
            !runs_as_root()
                || candidate.ancestors().all(|one| {
                    fs::metadata(one).is_ok_and(|one| one.permissions().mode() & 0o5 == 0o5)
                })
        };
        let mut candidates = candidates.into_iter().flatten();
        let folder = candidates.find_map(|candidate| {
            let folder = candidate.join(&name);
            let is_usable = !is_temporary(&candidate) && is_open(&candidate);
            (is_usable && fs::create_dir(&folder).is_ok()).then_some(folder)
        });
        let folder = folder.map(Self);
        if let Some(Self(folder)) = &folder {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
            fs::write(folder.join("secret"), "secret").unwrap();
        } else {
            skip("no folder outside of the temporary ones is writable");
        }
        folder
    }
}

impl Drop for OutsideFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Output of the probe, and the level of confinement that the kernel supports.
struct ProbeOutcome {
    text: String,
    level: String,
}

impl ProbeOutcome {
    /// Checks that some operations work and others fail. Ignores operations in neither list.
    fn check(&self, works: &[&str], fails: &[&str]) {
        for (names, expected) in [(works, "yes"), (fails, "no")] {
            for name in names {
                assert_eq!(
                    page_value(&self.text, name),
                    expected,
                    "{name}:\n{}",
                    self.text
                );
            }
        }
    }

    fn is_confined(&self) -> bool {
        let is_confined = self.level == "full";
        if !is_confined {
            skip(&format!(
                "this kernel confines PHP `{}`, not `full`",
                self.level
            ));
        }
        is_confined
    }
}

/// Files and ports outside of the site.
struct Surroundings {
    /// Document root. It cannot be in the folder of the test, which is a temporary one and therefore writable for PHP.
    root: OutsideFolder,
    outside: OutsideFolder,
    shared: OutsideFolder,
    listed: TcpListener,
    other: TcpListener,
}

impl Surroundings {
    fn new(name: &str) -> Option<Self> {
        let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
        Some(Self {
            root: OutsideFolder::new(&format!("{name}-root"))?,
            outside: OutsideFolder::new(&format!("{name}-outside"))?,
            shared: OutsideFolder::new(&format!("{name}-shared"))?,
            listed: listener(),
            other: listener(),
        })
    }

    /// Options that permit a port and a folder.
    fn lines(&self) -> String {
        let port = self.listed.local_addr().unwrap().port();
        let shared = self.shared.0.display();
        format!("php_connect_ports = [{port}]\nphp_paths = [\"{shared}\"]")
    }

    fn run_probe(&self, builder: SiteBuilder) -> ProbeOutcome {
        let root = builder.scratch.join("root");
        fs::remove_dir(&root).unwrap();
        symlink(&self.root.0, &root).unwrap();
        fs::create_dir_all(root.join("wp-content/uploads")).unwrap();
        for folder in ["wp-content", "wp-content/uploads"] {
            let mode = fs::Permissions::from_mode(0o777);
            fs::set_permissions(root.join(folder), mode).unwrap();
        }
        let site = builder.file("probe.php", PROBE).start();
        let text = self.request_probe(&site);
        let status: serde_json::Value = serde_json::from_str(&site.status()).unwrap();
        let level = status["sites"][0]["php"]["sandbox"].as_str().unwrap();
        ProbeOutcome {
            text,
            level: level.to_owned(),
        }
    }

    fn request_probe(&self, site: &TestSite) -> String {
        let socket = site.scratch.join("database.sock");
        let _database = UnixListener::bind(&socket).unwrap();
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
        let port = |of: &TcpListener| of.local_addr().unwrap().port().to_string();
        let form = [
            ("outside", self.outside.0.to_str().unwrap()),
            ("shared", self.shared.0.to_str().unwrap()),
            ("listed", &port(&self.listed)),
            ("other", &port(&self.other)),
            ("socket", socket.to_str().unwrap()),
        ];
        let response = site.send(Request::form("/probe.php", &form));
        response.expect_status(200).text()
    }
}

fn managed(lines: &str) -> SiteBuilder {
    SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1").site(lines)
}

/// Operations that PHP always needs.
const NEEDED: &[&str] = &[
    "upload",
    "temporary",
    "session",
    "socket",
    "program",
    "zone",
    "name",
    "opcache",
    "listed",
];

#[test]
fn without_a_sandbox_php_has_all_permissions_of_its_user() {
    let Some(surroundings) = Surroundings::new("off") else {
        return;
    };
    let outcome = surroundings.run_probe(managed(""));
    assert_eq!(outcome.level, "off");
    outcome.check(NEEDED, &[]);
    outcome.check(
        &["planted", "outside", "shared", "code", "other", "dropped"],
        &[],
    );
}

#[test]
fn a_sandbox_permits_the_document_root_and_the_configured_paths_and_ports() {
    let Some(surroundings) = Surroundings::new("root") else {
        return;
    };
    let lines = format!("php_sandbox = \"root\"\n{}", surroundings.lines());
    let outcome = surroundings.run_probe(managed(&lines));
    outcome.check(NEEDED, &[]);
    if outcome.is_confined() {
        outcome.check(
            &["code", "shared"],
            &["planted", "outside", "other", "dropped"],
        );
    }
}

#[test]
fn the_wp_content_sandbox_makes_code_read_only() {
    let Some(surroundings) = Surroundings::new("content") else {
        return;
    };
    let outcome = surroundings.run_probe(managed("php_sandbox = \"wp-content\""));
    // Without `php_connect_ports` all ports are permitted.
    outcome.check(NEEDED, &[]);
    if outcome.is_confined() {
        outcome.check(
            &["other"],
            &["planted", "outside", "shared", "code", "dropped"],
        );
    }
}

#[test]
fn php_of_another_user_is_sandboxed() {
    if !runs_as_root() {
        skip("only root can start PHP as another user");
        return;
    }
    let Some(surroundings) = Surroundings::new("user") else {
        return;
    };
    let lines = format!(
        "php_user = \"games\"\nphp_sandbox = \"root\"\n{}",
        surroundings.lines()
    );
    let builder = managed(&lines).server("user = \"www-data\"");
    let (uid, _) = account("www-data");
    for folder in ["", "galley"] {
        chown(builder.scratch.dir(folder).unwrap(), Some(uid), None).unwrap();
    }
    let outcome = surroundings.run_probe(builder);
    outcome.check(NEEDED, &[]);
    if outcome.is_confined() {
        outcome.check(
            &["code", "shared"],
            &["planted", "outside", "other", "dropped"],
        );
    }
}
