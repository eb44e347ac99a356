//! Markers in a real file system.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;

use super::*;

struct Stage {
    dir: tempfile::TempDir,
    events: OwnedFd,
    folder: MarkerFolder,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let events = events().unwrap();
        let path = dir.path().join("nginx");
        let (folder, is_new) = MarkerFolder::open(&path, None, events.as_fd()).unwrap();
        assert!(is_new);
        Self {
            dir,
            events,
            folder,
        }
    }

    fn put(&self, key: &str) -> io::Result<bool> {
        self.folder.put(key, self.events.as_fd())
    }

    fn marker(&self, key: &str) -> PathBuf {
        let name = marker_name(key);
        let path = self.dir.path().join("nginx");
        path.join(&name[31..]).join(&name[29..31]).join(name)
    }

    fn read(&self) -> RemovedFiles {
        self.folder.read(self.events.as_fd()).unwrap()
    }
}

const KEY: &str = "httpsGETexample.com/a/";

#[test]
fn a_marker_has_the_path_of_nginx_s_file() {
    let stage = Stage::new();
    assert!(stage.put(KEY).unwrap());
    assert!(!stage.put(KEY).unwrap(), "it is there");
    // `printf httpsGETexample.com/a/ | md5sum`
    let name = "2eddc8a8d7fc76bf8e54c8ffd795177b";
    let marker = stage.marker(KEY);
    assert_eq!(marker.file_name().unwrap(), name);
    assert_eq!(
        fs::read_to_string(&marker).unwrap(),
        format!("KEY: {KEY}\n")
    );
    assert_eq!(
        stage.folder.read(stage.events.as_fd()).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

#[test]
fn a_removal_identifies_the_page() {
    let stage = Stage::new();
    stage.put(KEY).unwrap();
    stage.put("httpGETexample.com/").unwrap();
    fs::remove_file(stage.marker(KEY)).unwrap();
    let removals = stage.read();
    assert!(!removals.is_everything && !removals.is_root_gone);
    assert_eq!(removals.names, [marker_name(KEY)]);
    assert_eq!(stage.folder.removed(&marker_name(KEY)).unwrap(), KEY);
    assert_eq!(stage.folder.removed(&marker_name(KEY)), None, "told once");
    assert!(stage.put(KEY).unwrap(), "it is new again");
}

#[test]
fn a_marker_recreated_before_its_removal_is_read_stays() {
    let stage = Stage::new();
    stage.put(KEY).unwrap();
    fs::remove_file(stage.marker(KEY)).unwrap();
    stage.put(KEY).unwrap();
    let [name] = &stage.read().names[..] else {
        panic!("one removal")
    };
    assert_eq!(stage.folder.removed(name).unwrap(), KEY);
    fs::remove_file(stage.marker(KEY)).unwrap();
    let [name] = &stage.read().names[..] else {
        panic!("one more")
    };
    assert_eq!(stage.folder.removed(name).unwrap(), KEY);
}

#[test]
fn removed_folders_count_as_everything() {
    let stage = Stage::new();
    stage.put(KEY).unwrap();
    fs::remove_dir_all(stage.marker(KEY).parent().unwrap()).unwrap();
    assert!(stage.read().is_everything);
    stage.put(KEY).unwrap();
    let path = stage.dir.path().join("nginx");
    fs::remove_dir_all(&path).unwrap();
    assert!(stage.read().is_everything);
    let (again, is_new) = MarkerFolder::open(&path, None, stage.events.as_fd()).unwrap();
    assert!(is_new && again.put(KEY, stage.events.as_fd()).unwrap());
    fs::rename(&path, stage.dir.path().join("elsewhere")).unwrap();
    assert!(again.read(stage.events.as_fd()).unwrap().is_root_gone);
}

#[test]
fn many_removals_at_once_count_as_everything() {
    let stage = Stage::new();
    stage.put(KEY).unwrap();
    for (count, is_everything) in [(MAX_REMOVALS, false), (MAX_REMOVALS + 1, true)] {
        let files = (0..count).map(|n| stage.marker(KEY).with_file_name(n.to_string()));
        for file in files {
            fs::write(&file, "").unwrap();
            fs::remove_file(&file).unwrap();
        }
        let removals = stage.read();
        assert_eq!(removals.is_everything, is_everything, "{count}");
        assert_eq!(removals.names.len(), MAX_REMOVALS);
    }
}

#[test]
fn removals_before_the_start_are_found() {
    let stage = Stage::new();
    stage.put(KEY).unwrap();
    stage.put("httpGETexample.com/").unwrap();
    fs::remove_file(stage.marker(KEY)).unwrap();
    let path = stage.dir.path().join("nginx");
    let (again, is_new) = MarkerFolder::open(&path, None, stage.events.as_fd()).unwrap();
    assert!(!is_new);
    let mut lost = Vec::new();
    let kept = again.scan(&mut lost).unwrap();
    assert_eq!(kept, [marker_name("httpGETexample.com/")]);
    assert_eq!(lost, [KEY]);
}

#[test]
fn a_marker_removed_by_galley_is_no_removal() {
    let stage = Stage::new();
    stage.put(KEY).unwrap();
    assert_eq!(stage.folder.remove_marker(&marker_name(KEY)).unwrap(), KEY);
    let [name] = &stage.read().names[..] else {
        panic!("one removal")
    };
    assert_eq!(stage.folder.removed(name), None);
}

#[test]
fn links_are_not_followed() {
    let stage = Stage::new();
    let elsewhere = stage.dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let marker = stage.marker(KEY);
    symlink(&elsewhere, marker.parent().unwrap().parent().unwrap()).unwrap();
    assert!(stage.put(KEY).is_err());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    // Files in the way are removed, because nginx may have used the folder before.
    let other = "httpGETexample.com/b";
    fs::create_dir_all(stage.marker(other).parent().unwrap()).unwrap();
    fs::write(stage.marker(other), "of nginx").unwrap();
    stage.put(other).unwrap();
    assert!(
        fs::read_to_string(stage.marker(other))
            .unwrap()
            .starts_with("KEY: ")
    );
    for name in ["../../etc/passwd", "", "ABCDEFABCDEFABCDEFABCDEFABCDEFAB"] {
        assert_eq!(stage.folder.removed(name), None, "{name}");
    }
}
