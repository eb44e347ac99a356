//! Tests with the real PHP-FPM: start, crash, end. `/proc` shows the remaining processes.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use galley_fastcgi::{FastCgiConnection, FastCgiEvent, FastCgiRequest, NoBody};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::net::UnixStream;

use galley_sys::cgroup::GroupLimits;

use super::{MachineMemory, Managed, MasterState, MemoryDivision, PhpSettings, PhpStartError};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A site's root and a runtime folder.
struct Site {
    place: TempDir,
}

impl Site {
    fn new() -> Site {
        let place = tempfile::Builder::new()
            .prefix("galley-php-")
            .tempdir()
            .unwrap();
        // Readable for the unprivileged workers.
        std::fs::set_permissions(
            place.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        std::fs::create_dir(place.path().join("root")).unwrap();
        Site { place }
    }

    fn settings(&self) -> PhpSettings {
        PhpSettings {
            root: self.root(),
            ..settings(self.place.path())
        }
    }

    fn root(&self) -> PathBuf {
        self.place.path().join("root")
    }

    fn script(&self, code: &str) -> PathBuf {
        let path = self.root().join("script.php");
        std::fs::write(&path, format!("<?php {code}")).unwrap();
        path
    }

    /// The number of PHP-FPM folders in the runtime folder.
    fn left(&self) -> usize {
        std::fs::read_dir(self.place.path().join("run")).map_or(0, Iterator::count)
    }
}

/// Settings with two permanent workers, below `place`.
fn settings(place: &Path) -> PhpSettings {
    PhpSettings {
        binary: None,
        command: Vec::new(),
        workers: 2,
        budget: MemoryDivision::of(MachineMemory {
            memory: 1 << 30,
            cores: 2,
            cache: 256 << 20,
            pools: 1,
        }),
        first_byte_timeout: Duration::from_secs(60),
        timeout: Duration::from_secs(300),
        memory_limit: None,
        user: None,
        runtime_dir: place.join("run"),
        site_name: "example.com".to_owned(),
        request_body: 20_000_000,
        root: place.to_owned(),
        sandbox: None,
        limits: GroupLimits::default(),
    }
}

fn master_of(managed: &Managed) -> u32 {
    match *managed.state().borrow() {
        MasterState::Running { master } => master,
        other => panic!("{other:?}"),
    }
}

/// The output of a script including the head, and the connection, which stays open.
async fn run(socket: &Path, script: &Path) -> (String, FastCgiConnection<UnixStream>) {
    let variables = [
        ("REQUEST_METHOD", "GET"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("SCRIPT_NAME", "/script.php"),
        ("SCRIPT_FILENAME", script.to_str().unwrap()),
    ]
    .map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into()));
    let mut connection = FastCgiConnection::new(UnixStream::connect(socket).await.unwrap());
    connection
        .send(&FastCgiRequest {
            variables: &variables,
            body_length: 0,
        })
        .await
        .unwrap();
    let mut output = Vec::new();
    loop {
        match tokio::time::timeout(TIMEOUT, connection.event(&mut NoBody))
            .await
            .expect("no answer")
            .unwrap()
        {
            FastCgiEvent::Stdout(bytes) => output.extend_from_slice(&bytes),
            FastCgiEvent::Stderr(bytes) => eprintln!("{}", String::from_utf8_lossy(&bytes)),
            FastCgiEvent::End(_) => return (String::from_utf8(output).unwrap(), connection),
        }
    }
}

/// Running processes (no zombies) with a field of `/proc/PID/stat` after the name equal to `value`: field 1 is the parent,
/// field 2 the group.
fn processes(field: usize, value: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        if fields[0] != "Z" && fields[field] == value.to_string() {
            found.push(pid);
        }
    }
    found
}

fn group(leader: u32) -> Vec<u32> {
    processes(2, leader)
}

/// Whether a master has a watcher, determined by the watcher's arguments.
fn has_watcher(master: u32) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let arguments: Vec<&[u8]> = arguments.split(|&byte| byte == 0).collect();
        arguments.contains(&&b"galley-php-watcher"[..])
            && arguments.contains(&master.to_string().as_bytes())
    })
}

/// Waits for a condition on processes that are not children of this one.
fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::yield_now();
    }
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

#[tokio::test]
async fn scripts_run_with_the_configured_settings() {
    let site = Site::new();
    let managed = Managed::start(site.settings()).await.unwrap();
    assert_eq!(managed.most_workers(), 2);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(managed.socket()).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    let script = site.script(
        "echo ini_get('post_max_size'), '|', ini_get('upload_max_filesize'), '|', getcwd(), '|',
              ini_get('memory_limit') >> 20, '|', ini_get('max_execution_time'), '|',
              ini_get('opcache.enable'), '|', ini_get('opcache.memory_consumption'), '|',
              opcache_get_status(false)['opcache_enabled'], '|', ini_get('opcache.jit_buffer_size'), '|',
              var_export(getenv('PATH'), true), '|', fileowner($file = tempnam(sys_get_temp_dir(), 'galley')); unlink($file);",
    );
    let (output, connection) = run(managed.socket(), &script).await;
    drop(connection);
    let body = output.split("\r\n\r\n").nth(1).unwrap();
    let (settings, owner) = body.rsplit_once('|').unwrap();
    assert_eq!(
        settings,
        format!(
            "20000000|20000000|{}|154|60|1|103|1|0|false",
            site.root().display()
        )
    );
    // Only the master runs as root.
    assert_ne!(owner, "0");
    managed.stop().await;
}

#[tokio::test]
async fn nothing_is_left_after_stop() {
    let site = Site::new();
    let managed = Managed::start(site.settings()).await.unwrap();
    let (master, mut state) = (master_of(&managed), managed.state());
    wait_for("both workers", || group(master).len() == 3);
    assert!(has_watcher(master));
    assert_eq!(site.left(), 1);
    managed.stop().await;
    assert_eq!(*state.borrow_and_update(), MasterState::Ended);
    assert_eq!(
        (group(master), has_watcher(master), site.left()),
        (vec![], false, 0)
    );
}

#[tokio::test]
async fn an_idle_connection_does_not_delay_the_stop() {
    let site = Site::new();
    let managed = Managed::start(site.settings()).await.unwrap();
    let script = site.script("echo 'hello';");
    let (_, connection) = run(managed.socket(), &script).await;
    assert!(connection.is_reusable());
    let master = master_of(&managed);
    tokio::time::timeout(Duration::from_secs(20), managed.stop())
        .await
        .expect("stop did not end");
    assert_eq!(group(master), Vec::<u32>::new());
    drop(connection);
}

#[tokio::test]
async fn dropping_the_handle_ends_php() {
    let site = Site::new();
    let managed = Managed::start(site.settings()).await.unwrap();
    let (master, mut state) = (master_of(&managed), managed.state());
    drop(managed);
    tokio::time::timeout(
        TIMEOUT,
        state.wait_for(|state| *state == MasterState::Ended),
    )
    .await
    .unwrap()
    .unwrap();
    assert_eq!(
        (group(master), has_watcher(master), site.left()),
        (vec![], false, 0)
    );
}

#[test]
fn the_end_of_the_runtime_ends_php() {
    let site = Site::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let managed = runtime.block_on(Managed::start(site.settings())).unwrap();
    let master = master_of(&managed);
    drop(runtime);
    wait_for("the end of the group", || {
        group(master).is_empty() && !has_watcher(master)
    });
    assert_eq!(site.left(), 0);
}

#[tokio::test]
async fn a_killed_master_is_restarted() {
    let site = Site::new();
    let managed = Managed::start(site.settings()).await.unwrap();
    let script = site.script("echo 'hello';");
    let mut state = managed.state();
    let mut master = master_of(&managed);
    for _ in 0..2 {
        // The workers hold the old socket and would continue to run.
        wait_for("both workers", || group(master).len() == 3);
        kill(master);
        let running = |now: &MasterState| matches!(now, MasterState::Running { master: new } if *new != master);
        tokio::time::timeout(TIMEOUT, state.wait_for(running))
            .await
            .expect("it did not come back")
            .unwrap();
        wait_for("the end of the old workers", || group(master).is_empty());
        assert!(!has_watcher(master));
        master = master_of(&managed);
        assert!(run(managed.socket(), &script).await.0.ends_with("hello"));
    }
    managed.stop().await;
    assert_eq!(
        (group(master), has_watcher(master), site.left()),
        (vec![], false, 0)
    );
}

#[tokio::test]
async fn galley_replaces_a_worker_before_php_fpm_does() {
    let site = Site::new();
    let settings = PhpSettings {
        workers: 1,
        ..site.settings()
    };
    let managed = Managed::start(settings).await.unwrap();
    let numbers = managed.numbers();
    let replaced = || numbers.replaced.load(Ordering::Relaxed);
    // An idle pool is not queried, so each request uses some CPU time.
    let script = site.script("for ($i = 0; $i < 50000; $i++); echo getmypid();");
    let pid = |output: String| output.rsplit("\r\n").next().unwrap().to_owned();
    let first = pid(run(managed.socket(), &script).await.0);
    let mut requests = 1;
    let deadline = Instant::now() + TIMEOUT * 4;
    while replaced() == 0 {
        assert!(
            Instant::now() < deadline,
            "not replaced after {requests} requests"
        );
        // PHP-FPM itself would replace the worker at 1500.
        if requests < 1400 {
            let now = pid(run(managed.socket(), &script).await.0);
            assert!(now == first || replaced() == 1, "{requests} requests");
            requests += 1;
        }
        tokio::task::yield_now().await;
    }
    assert!(requests >= 750, "replaced after {requests} requests");
    let master = master_of(&managed);
    wait_for("its end", || {
        !group(master).iter().any(|pid| pid.to_string() == first)
    });
    assert_ne!(pid(run(managed.socket(), &script).await.0), first);
    managed.stop().await;
}

#[tokio::test]
async fn stopping_works_while_restarts_fail() {
    let site = Site::new();
    let managed = Managed::start(site.settings()).await.unwrap();
    let master = master_of(&managed);
    let mut state = managed.state();
    std::fs::remove_dir(site.root()).unwrap();
    kill(master);
    tokio::time::timeout(
        TIMEOUT,
        state.wait_for(|state| *state == MasterState::Restarting),
    )
    .await
    .unwrap()
    .unwrap();
    tokio::time::timeout(TIMEOUT, managed.stop())
        .await
        .expect("stop did not end");
    assert_eq!(site.left(), 0);
    wait_for("the end of the old workers", || group(master).is_empty());
}

#[tokio::test]
async fn start_errors_contain_the_reason() {
    let site = Site::new();
    let binary = |path: &str| PhpSettings {
        binary: Some(path.into()),
        ..site.settings()
    };
    let error = Managed::start(binary("/nowhere/php-fpm"))
        .await
        .unwrap_err();
    assert!(matches!(&error, PhpStartError::Spawn { .. }), "{error}");
    let error = Managed::start(binary("/bin/false")).await.unwrap_err();
    assert!(matches!(&error, PhpStartError::Exited { .. }), "{error}");
    if rustix::process::geteuid().is_root() {
        let settings = PhpSettings {
            user: Some("no-such-user".to_owned()),
            ..site.settings()
        };
        let error = Managed::start(settings).await.unwrap_err();
        assert!(error.to_string().contains("no-such-user"), "{error}");
    }
    let settings = PhpSettings {
        runtime_dir: "/proc/nowhere".into(),
        ..site.settings()
    };
    let error = Managed::start(settings).await.unwrap_err();
    assert!(matches!(&error, PhpStartError::Files { .. }), "{error}");
    assert_eq!(site.left(), 0);
}

/// Plays the Galley that is killed, in a separate process.
#[tokio::test]
#[ignore = "started by `a_killed_galley_leaves_nothing`, waits to be killed"]
async fn victim() {
    let Some(place) = std::env::var_os("GALLEY_TEST_VICTIM") else {
        return;
    };
    let place = PathBuf::from(place);
    let managed = Managed::start(settings(&place)).await.unwrap();
    println!("\nmaster={}", master_of(&managed));
    std::future::pending::<()>().await;
}

#[test]
fn a_killed_galley_leaves_nothing() {
    let site = Site::new();
    let module = module_path!().split_once("::").unwrap().1;
    let mut galley = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            &format!("{module}::victim"),
            "--ignored",
            "--nocapture",
        ])
        .env("GALLEY_TEST_VICTIM", site.place.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(galley.stdout.take().unwrap());
    let master = loop {
        let mut line = String::new();
        assert_ne!(
            lines.read_line(&mut line).unwrap(),
            0,
            "the victim ended by itself"
        );
        if let Some(pid) = line.trim().strip_prefix("master=") {
            break pid.parse().unwrap();
        }
    };
    wait_for("both workers", || group(master).len() == 3);
    assert!(has_watcher(master));
    galley.kill().unwrap();
    galley.wait().unwrap();
    wait_for("the end of all", || {
        group(master).is_empty() && !has_watcher(master)
    });
    assert_eq!(site.left(), 0);
    let _ = lines.read_to_string(&mut String::new());
}
