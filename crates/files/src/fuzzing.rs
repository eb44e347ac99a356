//! What fuzz targets may do with readers that nobody else sees from outside. Compiled for them alone (`--cfg fuzzing`).

use std::sync::Arc;

use crate::deny;
use crate::htaccess::{Subject, judge, read};
use crate::options::Options;
use crate::path::RelPath;

/// Reads a `.htaccess` and asks it about a path. Panics where the reader does, or where the same text says two things.
pub fn htaccess(text: &[u8], decoded_path: &[u8]) {
    let Some(path) = RelPath::parse(decoded_path) else {
        return;
    };
    let chain = [Arc::new(read(text))];
    for subject in [Subject::Requested, Subject::File, Subject::Script] {
        let name = path.segment(0).unwrap_or_default();
        let verdict = judge(&chain, &path, name, subject);
        assert!(judge(&chain, &path, name, subject) == verdict);
    }
}

/// Makes a path of decoded bytes, and looks at what the deny list says. Panics where one climbs.
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
