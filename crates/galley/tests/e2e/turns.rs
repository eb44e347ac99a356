//! Who goes first on a busy processor: the threads that answer visitors, and nothing that was begun beside them.

use std::fs;
use std::path::Path;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TEST_PAGE, TIMEOUT};

/// What the kernel says of a thread.
#[derive(Debug)]
struct Thread {
    name: String,
    nice: i32,
    /// The length of its turns in nanoseconds, where the kernel reports it.
    turn: Option<u64>,
}

fn threads(of: u32) -> Vec<Thread> {
    let all = fs::read_dir(format!("/proc/{of}/task"))
        .into_iter()
        .flatten();
    all.flatten()
        .filter_map(|entry| thread(&entry.path()))
        .collect()
}

/// `None`: it has ended.
fn thread(at: &Path) -> Option<Thread> {
    let read = |file: &str| fs::read_to_string(at.join(file)).ok();
    let stat = read("stat")?;
    let (before, after) = stat.rsplit_once(") ")?;
    let sched = read("sched").unwrap_or_default();
    let line = sched.lines().find(|line| line.starts_with("se.slice"));
    Some(Thread {
        name: before.split_once('(')?.1.to_owned(),
        // The nineteenth of all fields (`proc_pid_stat(5)`).
        nice: after.split(' ').nth(16)?.parse().ok()?,
        turn: line.and_then(|line| line.rsplit(' ').next()?.parse().ok()),
    })
}

/// Process ids of the children of a process.
fn children(of: u32) -> Vec<u32> {
    let lists = fs::read_dir(format!("/proc/{of}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = lists.map(|task| fs::read_to_string(task.path().join("children")));
    let all: Vec<String> = lists.filter_map(Result::ok).collect();
    all.iter()
        .flat_map(|list| list.split_whitespace())
        .map(|id| id.parse().unwrap())
        .collect()
}

/// Whether a thread may ask for turns of its own.
fn has_turns() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release
        .split(['.', '-'])
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

#[test]
fn threads_that_answer_have_short_turns_and_php_has_not() {
    let site = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 2")
        .file("index.php", TEST_PAGE)
        .start();
    site.send(Request::form("/page", &[("a", "b")]))
        .assert_status(200);
    let own = threads(site.galley.pid());
    let usual = own.iter().find(|thread| thread.name == "galley").unwrap();
    let mut fast = 0;
    for thread in &own {
        let (turn, is_first) = match thread.name.split('-').next() {
            Some("front") => (100_000, true),
            Some("fetch") => (200_000, true),
            // Short for the sake of who waits meanwhile.
            Some("compress") => (100_000, false),
            _ => {
                assert_eq!(thread.turn, usual.turn, "{thread:?}");
                continue;
            }
        };
        if is_first {
            fast += 1;
            assert!(thread.nice <= usual.nice, "{thread:?}");
        } else {
            assert!(thread.nice > usual.nice, "{thread:?}");
        }
        if has_turns() && thread.turn.is_some() {
            assert_eq!(thread.turn, Some(turn), "{thread:?}");
        }
    }
    assert!(fast >= 2, "{own:?}");
    // One worker may have answered before the other was begun.
    wait_for("a master and two workers", TIMEOUT, || {
        php_of(site.galley.pid()).len() >= 3
    });
    for thread in php_of(site.galley.pid()) {
        assert_eq!(
            (thread.nice, thread.turn),
            (usual.nice, usual.turn),
            "{thread:?}"
        );
    }
}

/// The master that this process has begun, and its workers.
fn php_of(galley: u32) -> Vec<Thread> {
    let masters = children(galley);
    let workers = masters.iter().flat_map(|master| children(*master));
    let all = masters.iter().copied().chain(workers).flat_map(threads);
    all.filter(|thread| thread.name.starts_with("php"))
        .collect()
}
