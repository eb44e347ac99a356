//! The purge log on a real disk: restarts, `kill -9`, a file size limit, damage at every byte, two processes.

#![expect(clippy::unwrap_used, reason = "tests")]

mod blocking;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use self::blocking::Wait as _;

use bytes::Bytes;
use galley_cache::entry::{Entry, EntryKind, EntryParts, Scopes};
use galley_cache::key::Key;
use galley_cache::log::{Durability, LogContents, OpenError, OpenedLog, PurgeLog, RestartEffect};
use galley_cache::purge_table::{PurgeTable, Validity};
use galley_policy::key::{host_id, tag_id, url_id};
use galley_policy::purge::{Purge, Scope, Strength};
use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;

const SITE: &str = "a.test";
const FILE: &str = "purges.log";
const DIRECTORY: &str = "GALLEY_TEST_LOG";

fn tag(name: &str) -> Purge {
    Purge {
        scope: Scope::Tag(name.to_owned()),
        strength: Strength::Hard,
    }
}

fn page(name: &str, born: u64) -> Entry {
    Entry::new(EntryParts {
        key: Key::new(b"/"),
        kind: EntryKind::Page,
        status: http::StatusCode::OK,
        fields: http::HeaderMap::new(),
        body: Bytes::from_static(b"page").into(),
        stored_at: Tick(0),
        lifetime: Lifetime::default(),
        scopes: Scopes {
            host: host_id(SITE),
            url: url_id(SITE, b"/", None),
            path_query: (*b"/").into(),
            tags: [tag_id(name)].into(),
        },
        tags: Vec::new(),
        born,
    })
}

fn open(dir: &Path) -> (OpenedLog, PurgeTable) {
    let opened = loop {
        match PurgeLog::open(dir, SystemTime::now()) {
            // A child process of another test holds the lock from its fork to its exec.
            Err(OpenError::Locked) => std::thread::yield_now(),
            opened => break opened.unwrap(),
        }
    };
    let table = PurgeTable::new();
    opened.replay(SITE, &table);
    (opened, table)
}

fn purge(log: &PurgeLog, table: &PurgeTable, name: &str) -> Durability {
    let published = log.publish(SITE, table, &tag(name), SystemTime::now());
    published.ticket.wait()
}

#[test]
fn purges_survive_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("made/by/it");
    let (opened, table) = open(&dir);
    let (generation, born) = (opened.generation, table.current());
    assert_eq!(opened.found, LogContents::Nothing);
    assert_eq!(purge(&opened.log, &table, "t"), Durability::Kept);
    drop(opened);
    let mut start = born;
    for _ in 0..3 {
        let (opened, table) = open(&dir);
        assert_eq!(
            (opened.generation, opened.found.clone()),
            (generation, LogContents::Whole)
        );
        assert!(opened.start > start);
        start = opened.start;
        assert_eq!(table.validity(&page("t", born)), Validity::Purged);
        assert_eq!(table.validity(&page("u", born)), Validity::Valid);
        assert_eq!(table.validity(&page("t", table.current())), Validity::Valid);
    }
}

#[test]
fn a_second_process_is_rejected_until_the_first_has_closed_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (opened, _) = open(dir.path());
    let second = PurgeLog::open(dir.path(), SystemTime::now());
    assert!(matches!(second, Err(OpenError::Locked)), "{second:?}");
    drop(opened);
    open(dir.path());
}

#[test]
fn a_file_instead_of_a_directory_is_rejected() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let opened = PurgeLog::open(file.path(), SystemTime::now());
    assert!(matches!(opened, Err(OpenError::Directory(_))), "{opened:?}");
}

/// Flips every byte and truncates the file at every byte. All records are acknowledged.
#[test]
fn any_damage_to_acknowledged_records_purges_everything() {
    let dir = tempfile::tempdir().unwrap();
    let (opened, table) = open(dir.path());
    let generation = opened.generation;
    for name in ["t", "u", "v"] {
        assert_eq!(purge(&opened.log, &table, name), Durability::Kept);
    }
    drop(opened);
    let file = dir.path().join(FILE);
    let whole = std::fs::read(&file).unwrap();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        for damaged in [&flipped[..], &whole[..at]] {
            std::fs::write(&file, damaged).unwrap();
            let (opened, _) = open(dir.path());
            assert_ne!(opened.generation, generation, "byte {at}");
            assert!(opened.purges.is_empty() && matches!(opened.found, LogContents::Unreadable(_)));
        }
    }
    std::fs::write(&file, &whole).unwrap();
    assert_eq!(open(dir.path()).0.purges.len(), 3);
}

/// A crash while appending: the last record is incomplete, and the mark still points before it.
#[test]
fn an_incomplete_last_record_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE);
    let (opened, table) = open(dir.path());
    let generation = opened.generation;
    assert_eq!(purge(&opened.log, &table, "t"), Durability::Kept);
    // Opening the log again writes a file with only acknowledged bytes.
    drop(opened);
    let (opened, table) = open(dir.path());
    let before = std::fs::read(&file).unwrap();
    assert_eq!(purge(&opened.log, &table, "torn"), Durability::Kept);
    drop(opened);
    let after = std::fs::read(&file).unwrap();
    for end in before.len()..after.len() {
        let torn = [&before[..], &after[before.len()..end]].concat();
        std::fs::write(&file, torn).unwrap();
        let (opened, table) = open(dir.path());
        assert_eq!(opened.generation, generation);
        let expected = match end - before.len() {
            0 => LogContents::Whole,
            bytes => LogContents::Torn(bytes),
        };
        assert_eq!(opened.found, expected);
        assert_eq!(opened.purges.len(), 1);
        assert_eq!(purge(&opened.log, &table, "next"), Durability::Kept);
        drop(opened);
        assert_eq!(open(dir.path()).0.found, LogContents::Whole);
    }
}

/// Starts this program with one of the ignored tests below, after the shell commands `prefix`.
fn start_child(test: &str, dir: &Path, prefix: &str) -> Child {
    let program: PathBuf = std::env::current_exe().unwrap();
    Command::new("sh")
        .args(["-c", &format!("{prefix} exec \"$0\" \"$@\"")])
        .arg(program)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(DIRECTORY, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn directory() -> PathBuf {
    std::env::var_os(DIRECTORY)
        .expect("started by another test")
        .into()
}

#[test]
fn acknowledged_purges_survive_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut generation = None;
    for round in 0..5 {
        let mut child = start_child("child_that_purges_until_it_is_killed", dir.path(), "");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut acknowledged = Vec::new();
        for line in lines.map(Result::unwrap) {
            if let Some((_, record)) = line.split_once("kept ") {
                let (name, born) = record.split_once(' ').unwrap();
                acknowledged.push((name.to_owned(), born.parse::<u64>().unwrap()));
            }
            if acknowledged.len() > 20 * round {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let (opened, table) = open(dir.path());
        assert!(
            !matches!(opened.found, LogContents::Unreadable(_)),
            "{:?}",
            opened.found
        );
        assert_eq!(
            *generation.get_or_insert(opened.generation),
            opened.generation
        );
        assert!(!acknowledged.is_empty());
        for (name, born) in acknowledged {
            assert_eq!(
                table.validity(&page(&name, born)),
                Validity::Purged,
                "{name}"
            );
        }
    }
}

#[test]
#[ignore = "child process of acknowledged_purges_survive_kill_9"]
fn child_that_purges_until_it_is_killed() {
    let (opened, table) = open(&directory());
    for n in 0..1_000_000 {
        let (name, born) = (format!("t{n}"), table.current());
        assert_eq!(purge(&opened.log, &table, &name), Durability::Kept);
        println!("kept {name} {born}");
    }
}

#[test]
fn a_failed_append_is_reported_and_the_log_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = start_child(
        "child_that_writes_up_to_a_file_size_limit",
        dir.path(),
        "ulimit -f 1 && trap '' XFSZ &&",
    );
    let mut output = String::new();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_to_string(&mut output).unwrap();
    assert!(child.wait().unwrap().success(), "{output}");
}

#[test]
#[ignore = "child process of a_failed_append_is_reported_and_the_log_recovers"]
fn child_that_writes_up_to_a_file_size_limit() {
    let (opened, table) = open(&directory());
    let born = table.current();
    let outcomes = (0..100).map(|n| purge(&opened.log, &table, &format!("t{n}")));
    let lost = outcomes.into_iter().find_map(|outcome| match outcome {
        Durability::Kept => None,
        Durability::Lost(loss) => Some(loss),
    });
    assert_eq!(lost.unwrap().restart, RestartEffect::PurgesAll);
    assert!(!directory().join(FILE).exists());
    assert_eq!(table.validity(&page("t0", born)), Validity::Purged);
    let started = std::time::Instant::now();
    while opened.log.durability() != Durability::Kept {
        assert!(started.elapsed().as_secs() < 30);
        std::thread::yield_now();
    }
    assert_ne!(opened.log.generation(), opened.generation);
    assert_eq!(purge(&opened.log, &table, "again"), Durability::Kept);
    let generation = opened.log.generation();
    drop(opened);
    let (reopened, table) = open(&directory());
    assert_eq!(reopened.generation, generation);
    assert_eq!(table.validity(&page("t0", born)), Validity::Purged);
}
