//! A small file system of its own, for filling it up. Only root may mount.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Scratch, TestkitError, error::Context, process::run, runs_as_root};

/// Which file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// In memory.
    Tmpfs,
    /// A real one in a file, over a loop device.
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

/// Mounted as long as it lives.
pub(super) struct Mount {
    path: PathBuf,
}

impl Mount {
    /// Mounts 20 MB at `scratch/NAME`, or says why that cannot be done here.
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
                let file = fs::File::create(&image).context("make an image")?;
                file.set_len(20 << 20).context("make an image")?;
                let mut mkfs = Command::new("mkfs.ext4");
                // No room kept back for root, as whom the server runs here.
                mkfs.args(["-q", "-F", "-m", "0"]).arg(&image);
                if let Err(trouble) = run("mkfs.ext4", &mut mkfs) {
                    return Ok(Err(trouble.to_string()));
                }
                mount.args(["-o", "loop"]).arg(image)
            }
        };
        match run("mount", mount.arg(&path)) {
            Ok(_) => Ok(Ok(Self { path })),
            Err(trouble) => Ok(Err(trouble.to_string())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: what is still open goes with its holder.
        let _ = run("umount", Command::new("umount").arg("-l").arg(&self.path));
    }
}
