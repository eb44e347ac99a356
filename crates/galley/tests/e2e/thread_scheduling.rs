//! Scheduling priorities and time slices: the threads that serve requests come first on a busy processor, PHP and other threads do not.

use std::fs;
use std::path::Path;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TEST_PAGE, TIMEOUT};

/// Scheduling attributes of a thread.
#[derive(Debug)]
struct ThreadAttributes {
    name: String,
    nice: i32,
    /// Time slice in nanoseconds, if the kernel reports it.
    slice: Option<u64>,
}

fn threads(pid: u32) -> Vec<ThreadAttributes> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    entries
        .flatten()
        .filter_map(|entry| thread(&entry.path()))
        .collect()
}

/// Reads the attributes of a thread; `None` if it has ended.
fn thread(directory: &Path) -> Option<ThreadAttributes> {
    let read = |file: &str| fs::read_to_string(directory.join(file)).ok();
    let stat = read("stat")?;
    let (before, after) = stat.rsplit_once(") ")?;
    let sched = read("sched").unwrap_or_default();
    let line = sched.lines().find(|line| line.starts_with("se.slice"));
    Some(ThreadAttributes {
        name: before.split_once('(')?.1.to_owned(),
        // Field 19 of `proc_pid_stat(5)`.
        nice: after.split(' ').nth(16)?.parse().ok()?,
        slice: line.and_then(|line| line.rsplit(' ').next()?.parse().ok()),
    })
}

/// Process IDs of the children of a process.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")));
    let lists: Vec<String> = lists.filter_map(Result::ok).collect();
    lists
        .iter()
        .flat_map(|list| list.split_whitespace())
        .map(|id| id.parse().unwrap())
        .collect()
}

/// True if the kernel supports a time slice per thread.
fn kernel_has_slices() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release
        .split(['.', '-'])
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

#[test]
fn serving_threads_have_short_time_slices_and_php_does_not() {
    let site = SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 2")
        .file("index.php", TEST_PAGE)
        .start();
    site.send(Request::form("/page", &[("a", "b")]))
        .assert_status(200);
    let all = threads(site.galley.pid());
    let main = all.iter().find(|thread| thread.name == "galley").unwrap();
    let mut serving = 0;
    for thread in &all {
        let (slice, is_serving) = match thread.name.split('-').next() {
            Some("front") => (100_000, true),
            Some("fetch") => (200_000, true),
            // Short, so that serving threads wait less.
            Some("compress") => (100_000, false),
            _ => {
                assert_eq!(thread.slice, main.slice, "{thread:?}");
                continue;
            }
        };
        if is_serving {
            serving += 1;
            assert!(thread.nice <= main.nice, "{thread:?}");
        } else {
            assert!(thread.nice > main.nice, "{thread:?}");
        }
        if kernel_has_slices() && thread.slice.is_some() {
            assert_eq!(thread.slice, Some(slice), "{thread:?}");
        }
    }
    assert!(serving >= 2, "{all:?}");
    // The first worker may have responded before the second one started.
    wait_for("a PHP-FPM master and two workers", TIMEOUT, || {
        php_threads(site.galley.pid()).len() >= 3
    });
    for thread in php_threads(site.galley.pid()) {
        assert_eq!(
            (thread.nice, thread.slice),
            (main.nice, main.slice),
            "{thread:?}"
        );
    }
}

/// Threads of the PHP-FPM master that this process has started, and of its workers.
fn php_threads(galley: u32) -> Vec<ThreadAttributes> {
    let masters = children(galley);
    let workers = masters.iter().flat_map(|master| children(*master));
    let threads = masters.iter().copied().chain(workers).flat_map(threads);
    threads
        .filter(|thread| thread.name.starts_with("php"))
        .collect()
}
