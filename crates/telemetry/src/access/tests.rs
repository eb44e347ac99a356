//! Tests of the access log with real files, and with a pipe that is not read.

use std::fs;
use std::io::Read;
use std::path::Path;

use galley_config::LogFormat;

use super::*;
use crate::line::tests::record;

fn open(path: &Path) -> AccessLog {
    AccessLog::open(
        &LogTarget::File(path.to_owned()),
        LogFormat::Combined.into(),
    )
    .unwrap()
}

fn ids(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| line.rsplit("id=").next().unwrap().to_owned())
        .collect()
}

#[test]
fn closing_writes_all_lines_of_all_threads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    fs::write(&path, "id=before\n").unwrap();
    let log = open(&path);
    let cores = ["a", "b"].map(|core| {
        let mut writer = log.writer();
        std::thread::spawn(move || {
            for _ in 0..1_000 {
                writer.write(&AccessRecord {
                    request_id: core,
                    ..record()
                });
            }
            writer.flush();
        })
    });
    for core in cores {
        core.join().unwrap();
    }
    let clone = log.clone();
    log.close();
    let ids = ids(&path);
    assert_eq!(
        ids.first().map(String::as_str),
        Some("before"),
        "the file is appended to"
    );
    for core in ["a", "b"] {
        assert_eq!(ids.iter().filter(|id| *id == core).count(), 1_000);
    }
    assert_eq!(clone.dropped(), 0);
}

#[test]
fn dropping_a_writer_sends_its_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let log = open(&path);
    let mut writer = log.writer();
    writer.write(&record());
    drop(writer);
    log.close();
    assert_eq!(ids(&path), ["ab0-1"]);
}

#[test]
fn reopening_replaces_a_renamed_file() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (
        dir.path().join("access.log"),
        dir.path().join("access.log.1"),
    );
    let log = open(&path);
    let mut writer = log.writer();
    fs::rename(&path, &moved).unwrap();
    log.reopen();
    writer.write(&AccessRecord {
        request_id: "new",
        ..record()
    });
    writer.flush();
    log.close();
    assert_eq!(ids(&path), ["new"]);
    assert!(ids(&moved).is_empty());
}

#[test]
fn lines_for_a_blocked_reader_are_dropped_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &path,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
    )
    .unwrap();
    let (opened, reader) = (path.clone(), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut pipe = fs::File::open(opened).unwrap();
            reader.wait();
            let mut text = String::new();
            pipe.read_to_string(&mut text).unwrap();
            text.lines().count() as u64
        });
        let log = open(&path);
        let mut writer = log.writer();
        let mut written = 0_u64;
        // The pipe has 64 KiB, the channel a mebibyte, the buffer 64 KiB, so they are full long before a million lines.
        while log.dropped() < 100 {
            writer.write(&record());
            written += 1;
            assert!(written < 1_000_000, "nothing is dropped");
        }
        let dropped = log.dropped();
        reader.wait();
        while !writer.open.as_mut().unwrap().hand_over() {
            std::thread::yield_now();
        }
        drop(writer);
        log.close();
        assert_eq!(reading.join().unwrap() + dropped, written);
    });
}

#[test]
fn lines_after_closing_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(&dir.path().join("access.log"));
    let (mut writer, clone) = (log.writer(), log.clone());
    log.close();
    writer.write(&record());
    writer.flush();
    assert_eq!(clone.dropped(), 1);
}

#[test]
fn a_full_disk_is_counted() {
    let log = open(Path::new("/dev/full"));
    let (mut writer, clone) = (log.writer(), log.clone());
    writer.write(&record());
    writer.write(&record());
    writer.flush();
    log.close();
    assert_eq!(clone.dropped(), 2);
}

#[test]
fn off_is_off_and_a_missing_folder_is_an_error() {
    let log = AccessLog::open(&LogTarget::Off, LogFormat::Json.into()).unwrap();
    let mut writer = log.writer();
    writer.write(&record());
    writer.flush();
    log.reopen();
    assert_eq!(log.dropped(), 0);
    log.close();
    let nowhere = LogTarget::File("/nowhere/access.log".into());
    assert!(AccessLog::open(&nowhere, LogFormat::Json.into()).is_err());
}
