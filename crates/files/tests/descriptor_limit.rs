//! Without descriptors nothing is known of any path: neither that a page is missing nor that it is denied.
//!
//! A program of its own, since the limit applies to the whole process.

use std::fs::{self, File};

use galley_files::{Options, Resolved, Root};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn without_descriptors_a_look_fails() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["index.php", "a.txt"] {
        fs::write(dir.path().join(name), "x").unwrap();
    }
    let options = Options {
        php: true,
        ..Options::default()
    };
    let root = Root::open(dir.path(), options).unwrap();
    let paths = ["/a/post/", "/a.txt", "/", "/index.php"];
    for path in paths {
        assert!(!matches!(
            root.resolve(path.as_bytes()),
            Resolved::Failed(_)
        ));
    }
    let before = getrlimit(Resource::Nofile);
    let few = Rlimit {
        current: Some(64),
        maximum: before.maximum,
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let found = paths.map(|path| {
        (
            root.resolve(path.as_bytes()),
            root.resolve_script(path.as_bytes()),
        )
    });
    drop(taken);
    setrlimit(Resource::Nofile, before).unwrap();
    for ((found, known), path) in found.iter().zip(paths) {
        assert!(matches!(found, Resolved::Failed(_)), "{path}: {found:?}");
        assert_eq!(*known, None, "{path}");
    }
    assert!(matches!(root.resolve(b"/a/post/"), Resolved::Script(_)));
}
