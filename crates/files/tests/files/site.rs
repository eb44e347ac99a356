//! A site in a temporary directory, and descriptions of what a path resolves to.

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
    link_targets: Vec::new(),
};
pub const STATIC: Options = Options {
    php: false,
    multisite: false,
    wordpress: true,
    allowed: Vec::new(),
    images: ImageSiblings::FullName,
    link_targets: Vec::new(),
};
pub const MULTISITE: Options = Options {
    php: true,
    multisite: true,
    wordpress: true,
    allowed: Vec::new(),
    images: ImageSiblings::FullName,
    link_targets: Vec::new(),
};

/// The directory `site` below a temporary directory.
pub struct TestSite {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl TestSite {
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

    /// Removes all permissions.
    pub fn forbid(&self, name: &str) {
        fs::set_permissions(self.path.join(name), fs::Permissions::from_mode(0o000)).unwrap();
    }

    /// Restores permissions, so that the directory can be removed.
    pub fn allow(&self, name: &str) {
        fs::set_permissions(self.path.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Sets the modification time in seconds since the epoch.
    pub fn set_modified(&self, name: &str, seconds: u64) {
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

/// Describes what a path resolves to.
pub fn resolved(root: &Root, path: &[u8]) -> String {
    describe(root.resolve(path))
}

pub fn describe(found: Resolved) -> String {
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

/// Runs `test` in a thread to which file permissions apply, even if the tests run as root.
pub fn without_root_capabilities(test: impl FnOnce() + Send) {
    let limited = || {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).unwrap();
        test();
    };
    std::thread::scope(|scope| scope.spawn(limited).join().unwrap());
}
