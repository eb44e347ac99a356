//! PHP-FPM with `php_sandbox`: what a script reaches, and what it does not, beside one without.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use galley_testkit::client::Request;
use galley_testkit::runs_as_root;

use crate::support::{SiteBuilder, TestSite, page_value};

/// Says for each thing that a site's code may try whether it worked.
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

/// A folder that PHP's user may read and write, and no folder of temporary files is around it. The build's may be in one.
struct Outside(PathBuf);

impl Outside {
    fn new(name: &str) -> Option<Self> {
        let built = std::env::current_exe().unwrap();
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let places = [
            built.parent().map(Path::to_owned),
            home,
            Some("/srv".into()),
        ];
        let name = format!("galley-test-{name}-{}", std::process::id());
        let is_temporary = |place: &Path| {
            ["/tmp", "/var/tmp", "/dev/shm"]
                .iter()
                .any(|one| place.starts_with(one))
        };
        // PHP's user is somebody else than root.
        let is_open = |place: &Path| {
            !runs_as_root()
                || place.ancestors().all(|one| {
                    fs::metadata(one).is_ok_and(|one| one.permissions().mode() & 0o5 == 0o5)
                })
        };
        let mut places = places.into_iter().flatten();
        let made = places.find_map(|place| {
            let folder = place.join(&name);
            let is_good = !is_temporary(&place) && is_open(&place);
            (is_good && fs::create_dir(&folder).is_ok()).then_some(folder)
        });
        let made = made.map(Self);
        if let Some(Self(folder)) = &made {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
            fs::write(folder.join("secret"), "secret").unwrap();
        } else {
            eprintln!("SKIPPED: no folder outside those of temporary files can be written");
        }
        made
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What the script says with these lines in the site, and how far the kernel went along.
struct Told {
    text: String,
    level: String,
}

impl Told {
    /// Checks what worked and what did not; what is in neither list is not looked at.
    fn check(&self, works: &[&str], fails: &[&str]) {
        for (names, wanted) in [(works, "yes"), (fails, "no")] {
            for name in names {
                assert_eq!(
                    page_value(&self.text, name),
                    wanted,
                    "{name}:\n{}",
                    self.text
                );
            }
        }
    }

    fn is_confined(&self) -> bool {
        let is_whole = self.level == "whole";
        if !is_whole {
            eprintln!(
                "SKIPPED: this kernel confines PHP `{}`, not `whole`",
                self.level
            );
        }
        is_whole
    }
}

/// What is around the site: files, ports and a socket.
struct Around {
    /// The site's root: the test's own folder is among those of temporary files, which PHP may write.
    root: Outside,
    outside: Outside,
    shared: Outside,
    listed: TcpListener,
    other: TcpListener,
}

impl Around {
    fn new(name: &str) -> Option<Self> {
        let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
        Some(Self {
            root: Outside::new(&format!("{name}-root"))?,
            outside: Outside::new(&format!("{name}-outside"))?,
            shared: Outside::new(&format!("{name}-shared"))?,
            listed: listener(),
            other: listener(),
        })
    }

    /// Lines for the port and the folder that the site names.
    fn lines(&self) -> String {
        let port = self.listed.local_addr().unwrap().port();
        let shared = self.shared.0.display();
        format!("php_connect_ports = [{port}]\nphp_paths = [\"{shared}\"]")
    }

    fn send(&self, plan: SiteBuilder) -> Told {
        let root = plan.scratch.join("root");
        fs::remove_dir(&root).unwrap();
        symlink(&self.root.0, &root).unwrap();
        fs::create_dir_all(root.join("wp-content/uploads")).unwrap();
        for folder in ["wp-content", "wp-content/uploads"] {
            let mode = fs::Permissions::from_mode(0o777);
            fs::set_permissions(root.join(folder), mode).unwrap();
        }
        let site = plan.file("probe.php", PROBE).start();
        let text = self.probe(&site);
        let status: serde_json::Value = serde_json::from_str(&site.status()).unwrap();
        let level = status["sites"][0]["php"]["sandbox"].as_str().unwrap();
        Told {
            text,
            level: level.to_owned(),
        }
    }

    fn probe(&self, site: &TestSite) -> String {
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
        let answer = site.send(Request::form("/probe.php", &form));
        answer.expect_status(200).text()
    }
}

fn managed(lines: &str) -> SiteBuilder {
    SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1").site(lines)
}

/// What every PHP needs, confined or not.
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
fn without_it_php_reaches_what_its_user_does() {
    let Some(around) = Around::new("off") else {
        return;
    };
    let told = around.send(managed(""));
    assert_eq!(told.level, "off");
    told.check(NEEDED, &[]);
    told.check(
        &["planted", "outside", "shared", "code", "other", "dropped"],
        &[],
    );
}

#[test]
fn with_it_php_reaches_its_root_and_what_the_site_names() {
    let Some(around) = Around::new("root") else {
        return;
    };
    let lines = format!("php_sandbox = \"root\"\n{}", around.lines());
    let told = around.send(managed(&lines));
    told.check(NEEDED, &[]);
    if told.is_confined() {
        told.check(
            &["code", "shared"],
            &["planted", "outside", "other", "dropped"],
        );
    }
}

#[test]
fn code_can_be_closed_to_php() {
    let Some(around) = Around::new("content") else {
        return;
    };
    let told = around.send(managed("php_sandbox = \"wp-content\""));
    // Without a list of ports all are open.
    told.check(NEEDED, &[]);
    if told.is_confined() {
        told.check(
            &["other"],
            &["planted", "outside", "shared", "code", "dropped"],
        );
    }
}

#[test]
fn php_of_another_user_is_confined_too() {
    if !runs_as_root() {
        eprintln!("SKIPPED: only root can start PHP as somebody else");
        return;
    }
    let Some(around) = Around::new("user") else {
        return;
    };
    let lines = format!(
        "php_user = \"games\"\nphp_sandbox = \"root\"\n{}",
        around.lines()
    );
    let plan = managed(&lines).server("user = \"www-data\"");
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let row = accounts.lines().find(|row| row.starts_with("www-data:"));
    let uid: u32 = row.unwrap().split(':').nth(2).unwrap().parse().unwrap();
    for folder in ["", "galley"] {
        chown(plan.scratch.dir(folder).unwrap(), Some(uid), None).unwrap();
    }
    let told = around.send(plan);
    told.check(NEEDED, &[]);
    if told.is_confined() {
        told.check(
            &["code", "shared"],
            &["planted", "outside", "other", "dropped"],
        );
    }
}
