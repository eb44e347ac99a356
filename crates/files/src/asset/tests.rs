//! Tests: which files may be cached, and the fields of their responses.

use super::*;
use crate::recheck::SETTLING;
use std::path::Path;

fn opened(path: &Path, coding: Coding) -> FileForm {
    let file = File::open(path).unwrap();
    let metadata = file.metadata().unwrap();
    FileForm {
        length: metadata.len(),
        modified: metadata.modified().unwrap(),
        identity: FileIdentity::of(&metadata),
        coding,
        format: None,
        file,
    }
}

fn asset(plain: FileForm) -> Asset {
    Asset {
        plain,
        siblings: Vec::new(),
        content_type: "text/css; charset=utf-8",
    }
}

#[test]
fn a_file_is_settled_after_the_coarsest_timestamp_resolution() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.css");
    std::fs::write(&path, "a").unwrap();
    // A modification time in the future, as a copy preserves it, does not show when the file was written.
    let file = File::options().append(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(9000))
        .unwrap();
    let form = opened(&path, Coding::Identity);
    let (seconds, nanoseconds) = form.identity.changed;
    let changed = SystemTime::UNIX_EPOCH
        + Duration::new(
            u64::try_from(seconds).unwrap(),
            u32::try_from(nanoseconds).unwrap(),
        );
    let asset = asset(form);
    for (before, expected) in [
        (SystemTime::UNIX_EPOCH, false),
        (changed - Duration::from_secs(100), false),
        (changed, false),
        (changed + SETTLING, false),
        (changed + SETTLING + Duration::from_nanos(1), true),
        (changed + Duration::from_secs(86_400), true),
    ] {
        assert_eq!(asset.is_settled(before), expected, "{before:?}");
    }
}

#[test]
fn a_file_that_changed_since_it_was_opened_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.css");
    std::fs::write(&path, "abc").unwrap();
    let form = opened(&path, Coding::Identity);
    assert_eq!(form.read_whole().unwrap().as_deref(), Some(&b"abc"[..]));
    std::fs::write(&path, "abcd").unwrap();
    assert_eq!(form.read_whole().unwrap(), None, "it has grown");
    let form = opened(&path, Coding::Identity);
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(1)
        .unwrap();
    assert_eq!(form.read_whole().unwrap(), None, "it was cut");
    let form = opened(&path, Coding::Identity);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(form.read_whole().unwrap(), None, "its last name is gone");
}

#[test]
fn a_stamp_distinguishes_files_and_siblings() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    std::fs::write(&one, "1").unwrap();
    std::fs::write(&two, "1").unwrap();
    let alone = || asset(opened(&one, Coding::Identity));
    assert_eq!(alone().stamp(), alone().stamp());
    assert_ne!(
        alone().stamp(),
        asset(opened(&two, Coding::Identity)).stamp()
    );
    let with = |coding| Asset {
        siblings: vec![opened(&two, coding)],
        ..alone()
    };
    assert_ne!(alone().stamp(), with(Coding::Gzip).stamp());
    assert_ne!(with(Coding::Brotli).stamp(), with(Coding::Gzip).stamp());
}

#[test]
fn times_that_http_dates_cannot_express_are_omitted() {
    assert_eq!(date(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), None);
    assert_eq!(date(SystemTime::UNIX_EPOCH + YEAR_10000), None);
    let last = SystemTime::UNIX_EPOCH + YEAR_10000 - Duration::from_secs(1);
    assert_eq!(
        date(last).unwrap().to_str().unwrap(),
        "Fri, 31 Dec 9999 23:59:59 GMT"
    );
}
