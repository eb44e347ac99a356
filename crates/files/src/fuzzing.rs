//! Access for fuzz targets to private parsers. Compiled only for them (`--cfg fuzzing`).

use std::sync::Arc;

use crate::deny;
use crate::htaccess::{AccessSubject, evaluate, read};
use crate::options::Options;
use crate::path::RelPath;

/// Parses a `.htaccess` and evaluates a path. Panics if the parser does, or if the same text gives two results.
pub fn htaccess(text: &[u8], decoded_path: &[u8]) {
    let Some(path) = RelPath::parse(decoded_path) else {
        return;
    };
    let chain = [Arc::new(read(text))];
    for subject in [
        AccessSubject::Requested,
        AccessSubject::File,
        AccessSubject::Script,
    ] {
        let name = path.segment(0).unwrap_or_default();
        let verdict = evaluate(&chain, &path, name, subject);
        assert!(evaluate(&chain, &path, name, subject) == verdict);
    }
}

/// Parses a decoded path, and evaluates the deny list. Panics if a path leaves the root.
pub fn path(decoded: &[u8]) {
    let Some(path) = RelPath::parse(decoded) else {
        return;
    };
    assert!(
        path.segments()
            .all(|segment| !matches!(segment, b"" | b"." | b".."))
    );
    for (wordpress, multisite) in [(true, true), (true, false), (false, false)] {
        let options = Options {
            wordpress,
            multisite,
            ..Options::default()
        };
        let _ = deny::forbids(&path, &options);
        let _ = deny::forbids_file(&path, &options);
        let _ = deny::is_program(&path, &options);
    }
}
