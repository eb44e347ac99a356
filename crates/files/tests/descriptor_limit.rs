//! Without free file descriptors, resolving a path fails; the result is neither missing nor denied.
//!
//! A separate test program, because the limit applies to the whole process.

use std::fs::{self, File};

use galley_files::{Options, Resolved, Root};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn without_free_descriptors_resolving_fails() {
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
    let low_limit = Rlimit {
        current: Some(64),
        maximum: before.maximum,
    };
    setrlimit(Resource::Nofile, low_limit).unwrap();
    let open_files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let results = paths.map(|path| {
        (
            root.resolve(path.as_bytes()),
            root.resolve_script(path.as_bytes()),
        )
    });
    drop(open_files);
    setrlimit(Resource::Nofile, before).unwrap();
    for ((resolved, script), path) in results.iter().zip(paths) {
        assert!(
            matches!(resolved, Resolved::Failed(_)),
            "{path}: {resolved:?}"
        );
        assert_eq!(*script, None, "{path}");
    }
    assert!(matches!(root.resolve(b"/a/post/"), Resolved::Script(_)));
}
