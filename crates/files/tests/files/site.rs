//! A site in a directory of its own, and words for what was found in it.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use galley_files::{Options, Resolved, Root};
use galley_policy::encoding::AcceptedCodings;
use galley_policy::images::ImageSiblings;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

pub const PHP: Options = Options {
    php: true,
    multisite: false,
    wordpress: true,
    allowed: Vec::new(),
    images: ImageSiblings::FullName,
};
pub const STATIC: Options = Options {
    php: false,
    multisite: false,
    wordpress: true,
    allowed: Vec::new(),
    images: ImageSiblings::FullName,
};
pub const MULTISITE: Options = Options {
    php: true,
    multisite: true,
    wordpress: true,
    allowed: Vec::new(),
    images: ImageSiblings::FullName,
};

/// `site` below a directory that is removed at the end.
pub struct Site {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Site {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("site");
        fs::create_dir(&path).unwrap();
        let site = Self { _dir: dir, path };
        for (name, text) in files {
            site.write(name, text);
        }
        site
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn root(&self, options: Options) -> Root {
        Root::open(&self.path, options).unwrap()
    }

    /// Takes all permissions away.
    pub fn forbid(&self, name: &str) {
        fs::set_permissions(self.path.join(name), fs::Permissions::from_mode(0o000)).unwrap();
    }

    /// Gives them back, so that the directory can be removed.
    pub fn allow(&self, name: &str) {
        fs::set_permissions(self.path.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Sets the time of change, in seconds since the epoch.
    pub fn age(&self, name: &str, seconds: u64) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let file = File::options()
            .append(true)
            .open(self.path.join(name))
            .unwrap();
        file.set_modified(time).unwrap();
    }
}

pub fn codings(accept: &str) -> AcceptedCodings {
    let mut codings = AcceptedCodings::default();
    codings.read(accept.as_bytes());
    codings
}

/// What a path means, in a few words.
pub fn say(root: &Root, path: &[u8]) -> String {
    word(root.resolve(path))
}

pub fn word(found: Resolved) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match found {
        Resolved::File(asset) => format!(
            "file {}",
            std::io::read_to_string(asset.plain.file).unwrap()
        ),
        Resolved::Script(script) => match script.path_info {
            Some(info) => format!("script {} info {}", text(&script.name), text(&info)),
            None => format!("script {}", text(&script.name)),
        },
        Resolved::Redirect(path) => format!("redirect {}", text(&path)),
        Resolved::Missing => "missing".to_owned(),
        Resolved::Denied => "denied".to_owned(),
        Resolved::Failed(error) => format!("failed: {error}"),
    }
}

/// Runs `test` in a thread to which permissions apply, also when the tests run as root.
pub fn as_nobody_special(test: impl FnOnce() + Send) {
    let limited = || {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).unwrap();
        test();
    };
    std::thread::scope(|scope| scope.spawn(limited).join().unwrap());
}
