//! A small temporary file system that tests can fill up. Mounting requires root.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Scratch, TestkitError, error::Context, process::run, runs_as_root};

/// The type of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file system in memory.
    Tmpfs,
    /// An ext4 image in a file, over a loop device.
    Ext4,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Tmpfs, Self::Ext4];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tmpfs => "tmpfs",
            Self::Ext4 => "ext4",
        }
    }
}

/// A mounted file system, unmounted when dropped.
pub(super) struct Mount {
    path: PathBuf,
}

impl Mount {
    /// Mounts 20 MB at `scratch/NAME`, or returns why this machine does not allow it.
    pub(super) fn new(scratch: &Scratch, kind: Kind) -> Result<Result<Self, String>, TestkitError> {
        if !runs_as_root() {
            return Ok(Err("only root may mount".to_owned()));
        }
        let path = scratch.dir(kind.name())?;
        let mut mount = Command::new("mount");
        match kind {
            Kind::Tmpfs => mount.args(["-t", "tmpfs", "-o", "size=20m,mode=755", "tmpfs"]),
            Kind::Ext4 => {
                let image = scratch.join("ext4.image");
                let file = fs::File::create(&image).context("create a disk image")?;
                file.set_len(20 << 20).context("create a disk image")?;
                let mut mkfs = Command::new("mkfs.ext4");
                // The server runs as root here, so blocks reserved for root would not limit it.
                mkfs.args(["-q", "-F", "-m", "0"]).arg(&image);
                if let Err(error) = run("mkfs.ext4", &mut mkfs) {
                    return Ok(Err(error.to_string()));
                }
                mount.args(["-o", "loop"]).arg(image)
            }
        };
        match run("mount", mount.arg(&path)) {
            Ok(_) => Ok(Ok(Self { path })),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: processes may still have open files on it.
        let _ = run("umount", Command::new("umount").arg("-l").arg(&self.path));
    }
}
