//! An opened root directory, and the only place that opens anything below it.
//!
//! Nothing outside the root is ever opened: a path is opened relative to the root's descriptor, and the kernel rejects
//! every symbolic link (`openat2`, or step by step if the kernel lacks it). Only if there is a link, the path is resolved
//! link by link here, within the root and the folders that the site names as targets of links, and the resulting link-free path
//! is opened in the same strict way, below the descriptor of its folder. So a link that is changed in between is rejected and
//! not followed. Anything but a regular file or a directory is examined only through
//! `O_PATH`: opening a FIFO or a device may block or have side effects.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use rustix::fs::{AtFlags, Dir, FileType, FsWord, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

/// An opened root. Replaced as a whole when the root changes.
pub(crate) struct Tree {
    dir: OwnedFd,
    /// The canonical absolute path, without a trailing slash unless it is `/`.
    path: Vec<u8>,
    /// The absolute path as configured; links inside the root may use it.
    configured: Vec<u8>,
    device: u64,
    inode: u64,
    /// Folders outside the root to which links may lead.
    linked: Vec<Arc<Tree>>,
    /// Set once `openat2` has failed because the kernel does not have it.
    stepwise: AtomicBool,
    /// Set once the kernel has reported that it does not support `RESOLVE_CACHED` (before 5.12).
    lacks_cached_lookup: AtomicBool,
}

/// What a path below the root names.
pub(crate) enum Node {
    /// A regular file.
    Regular(FileLocation),
    /// A directory.
    Directory,
    /// A FIFO, socket or device: never opened.
    Special,
    /// Reachable only through a link that leads out of the root.
    Outside,
    /// The process has no permission.
    Refused,
    /// The lookup failed: no descriptors or memory left, a failing disk. It is unknown whether the path exists.
    Failed(Errno),
    /// The path does not exist.
    Absent,
}

/// A value that changes whenever a name in a directory is added, removed or replaced: seconds and nanoseconds of its
/// modification time and of the change time of its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryStamp {
    modified: (i64, u32),
    changed: (i64, u32),
}

impl DirectoryStamp {
    /// Whether the directory has not changed since a time.
    pub(crate) fn is_older_than(self, time: SystemTime) -> bool {
        let Ok(since) = time.duration_since(SystemTime::UNIX_EPOCH) else {
            return false;
        };
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        self.modified.max(self.changed) < (seconds, since.subsec_nanos())
    }
}

/// The location of a file.
pub(crate) struct FileLocation {
    /// The link-free path, if it differs from the requested one.
    pub(crate) real: Option<RealPath>,
}

/// A link-free path below the root, or below a folder to which links may lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RealPath {
    /// The index of that folder; `None`: the root.
    pub(crate) linked: Option<usize>,
    /// The path relative to it.
    pub(crate) text: Vec<u8>,
}

impl Tree {
    /// Opens the directory that `configured` currently names, and those of `link_targets` that exist.
    pub(crate) fn open_with(configured: &Path, link_targets: &[PathBuf]) -> io::Result<Self> {
        let linked = link_targets.iter();
        let linked = linked.filter_map(|folder| Self::open(folder).ok().map(Arc::new));
        Ok(Self {
            linked: linked.collect(),
            ..Self::open(configured)?
        })
    }

    /// Opens the directory that `configured` currently names.
    pub(crate) fn open(configured: &Path) -> io::Result<Self> {
        let path = std::fs::canonicalize(configured)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(rustix::fs::CWD, &path, flags, Mode::empty())?;
        let dir = File::from(dir);
        let metadata = dir.metadata()?;
        Ok(Self {
            dir: dir.into(),
            path: path.into_os_string().into_vec(),
            configured: std::path::absolute(configured)?.into_os_string().into_vec(),
            device: metadata.dev(),
            inode: metadata.ino(),
            linked: Vec::new(),
            stepwise: AtomicBool::new(false),
            lacks_cached_lookup: AtomicBool::new(false),
        })
    }

    /// Whether `metadata` describes this directory.
    pub(crate) fn is(&self, metadata: &Metadata) -> bool {
        (self.device, self.inode) == (metadata.dev(), metadata.ino())
    }

    /// The folders outside the root to which links may lead.
    pub(crate) fn linked(&self) -> &[Arc<Self>] {
        &self.linked
    }

    /// Whether the directories are those that the paths name now.
    pub(crate) fn is_current(&self, link_targets: &[PathBuf]) -> bool {
        let folders = link_targets.iter();
        let folders = folders.filter_map(|folder| std::fs::metadata(folder).ok());
        let folders: Vec<Metadata> = folders.filter(Metadata::is_dir).collect();
        let mut pairs = self.linked.iter().zip(&folders);
        self.linked.len() == folders.len() && pairs.all(|(tree, metadata)| tree.is(metadata))
    }

    /// The directory that contains a link-free path.
    fn home(&self, linked: Option<usize>) -> &Self {
        let linked = linked.and_then(|index| self.linked.get(index));
        linked.map_or(self, |tree| tree)
    }

    /// The canonical absolute path of the root.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// The absolute path of a relative path.
    pub(crate) fn absolute(&self, relative: &[u8]) -> Vec<u8> {
        let root = self.path.strip_suffix(b"/").unwrap_or(&self.path);
        [root, b"/", relative].concat()
    }

    /// Looks up `relative` without opening it.
    pub(crate) fn look(&self, relative: &[u8]) -> Node {
        let (found, real) = match self.open_strict(relative, OFlags::PATH) {
            Err(Errno::LOOP) => match self.real_path(relative) {
                Ok(real) => {
                    let home = self.home(real.linked);
                    (home.open_strict(&real.text, OFlags::PATH), Some(real))
                }
                Err(errno) => (Err(errno), None),
            },
            found => (found, None),
        };
        let kind = match found {
            Ok(descriptor) => File::from(descriptor).metadata(),
            Err(errno) => return Node::from_errno(errno),
        };
        match kind.map(|metadata| metadata.file_type()) {
            Ok(kind) if kind.is_file() => Node::Regular(FileLocation { real }),
            Ok(kind) if kind.is_dir() => Node::Directory,
            Ok(_) => Node::Special,
            Err(error) => Node::Failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        }
    }

    /// As [`Tree::look`], but only from the kernel's memory. `None` if it would have to read the disk, or if there is a link in
    /// the path.
    pub(crate) fn lookup_cached(&self, relative: &[u8]) -> Option<Node> {
        if self.stepwise.load(Ordering::Relaxed) || self.lacks_cached_lookup.load(Ordering::Relaxed)
        {
            return None;
        }
        let relative = if relative.is_empty() { b"." } else { relative };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = STRICT | ResolveFlags::CACHED;
        let opened = rustix::fs::openat2(&self.dir, relative, flags, Mode::empty(), resolve);
        let descriptor = match opened {
            Ok(descriptor) => descriptor,
            Err(Errno::NOENT | Errno::NOTDIR) => return Some(Node::Absent),
            Err(errno) => {
                let is_unknown = matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::PERM);
                self.lacks_cached_lookup
                    .fetch_or(is_unknown, Ordering::Relaxed);
                return None;
            }
        };
        // Without this flag, a network file system would ask its server.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = rustix::fs::statx(descriptor, c"", flags, StatxFlags::TYPE).ok()?;
        Some(match FileType::from_raw_mode(stat.stx_mode.into()) {
            FileType::RegularFile => Node::Regular(FileLocation { real: None }),
            FileType::Directory => Node::Directory,
            _ => Node::Special,
        })
    }

    /// The last change of the root's own directory, as the kernel has it in memory.
    pub(crate) fn root_stamp(&self) -> Option<DirectoryStamp> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let times = StatxFlags::MTIME | StatxFlags::CTIME;
        let stat = rustix::fs::statx(&self.dir, c"", flags, times).ok()?;
        Some(DirectoryStamp {
            modified: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
            changed: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        })
    }

    /// Whether the root is on a local file system, so that the kernel sees every change of a directory.
    pub(crate) fn is_local(&self) -> bool {
        let found = rustix::fs::fstatfs(&self.dir);
        found.is_ok_and(|found| LOCAL_FILE_SYSTEMS.contains(&found.f_type))
    }

    /// The names in the root's own directory and their types, as far as the file system reports them; `None` if there are more
    /// than `most`, or if they cannot be read.
    pub(crate) fn root_names(&self, most: usize) -> Option<HashMap<Vec<u8>, FileType>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.dir, ".", flags, Mode::empty()).ok()?;
        let mut names = HashMap::new();
        for entry in Dir::new(opened).ok()? {
            let entry = entry.ok()?;
            names.insert(entry.file_name().to_bytes().to_vec(), entry.file_type());
            if names.len() > most {
                return None;
            }
        }
        Some(names)
    }

    /// Opens a regular file for reading by its link-free path.
    pub(crate) fn open_file(&self, real: &[u8]) -> io::Result<(File, Metadata)> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.open_strict(real, flags)?);
        let metadata = file.metadata()?;
        if metadata.is_file() {
            return Ok((file, metadata));
        }
        Err(io::Error::from(io::ErrorKind::InvalidInput))
    }

    /// Opens a directory below the root, only to access its entries. Follows links to the permitted folders.
    pub(crate) fn open_directory(&self, relative: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        match self.open_strict(relative, flags) {
            Err(Errno::LOOP) => {
                let real = self.real_path(relative)?;
                self.home(real.linked).open_strict(&real.text, flags)
            }
            found => found,
        }
    }

    /// Opens a path that must not contain a link (`ELOOP` if it does).
    fn open_strict(&self, relative: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let relative = if relative.is_empty() { b"." } else { relative };
        if !self.stepwise.load(Ordering::Relaxed) {
            match rustix::fs::openat2(&self.dir, relative, flags, Mode::empty(), STRICT) {
                Err(Errno::NOSYS) => self.stepwise.store(true, Ordering::Relaxed),
                // The error of a seccomp filter that does not know the call.
                Err(Errno::PERM) => {}
                found => return found,
            }
        }
        self.open_stepwise(relative, flags)
    }

    /// As [`Tree::open_strict`], for kernels without `openat2` (before 5.6) and for sandboxes that forbid it.
    fn open_stepwise(&self, relative: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut segments = relative.split(|b| *b == b'/').peekable();
        let mut at: Option<OwnedFd> = None;
        while let Some(segment) = segments.next() {
            if segment.is_empty() || segment == b".." {
                return Err(Errno::XDEV);
            }
            let from = at.as_ref().map_or(self.dir.as_fd(), AsFd::as_fd);
            // First with `O_PATH`, which opens no file and does not follow a link.
            let here = rustix::fs::openat(from, segment, step, Mode::empty())?;
            if is_link(here.as_fd())? {
                return Err(Errno::LOOP);
            }
            if segments.peek().is_none() {
                return rustix::fs::openat(from, segment, flags | OFlags::NOFOLLOW, Mode::empty());
            }
            at = Some(here);
        }
        Err(Errno::NOENT)
    }

    /// The link-free path of `relative`; `EXDEV` if a link leaves the permitted folders, `ELOOP` if there are too many links.
    fn real_path(&self, relative: &[u8]) -> Result<RealPath, Errno> {
        // `ahead`: the segments still to resolve, the next one last. `behind`: the directories so far, with their names.
        let mut ahead: Vec<Vec<u8>> = reversed(relative);
        let mut behind: Vec<(Vec<u8>, OwnedFd)> = Vec::new();
        let mut linked = None;
        let mut links = 0;
        while let Some(segment) = ahead.pop() {
            if segment == b".." {
                if behind.pop().is_none() {
                    // The path of the directory has no links, so its parent is the one that the path names.
                    let rest: Vec<Vec<u8>> = ahead.into_iter().rev().collect();
                    let above = [
                        &self.home(linked).path,
                        b"/../".as_slice(),
                        &rest.join(&b'/'),
                    ];
                    (linked, ahead) = self.enter(&without_parents(&above.concat()))?;
                }
                continue;
            }
            let from = behind
                .last()
                .map_or(self.home(linked).dir.as_fd(), |(_, dir)| dir.as_fd());
            let target = match rustix::fs::readlinkat(from, segment.as_slice(), Vec::new()) {
                Ok(target) => target.into_bytes(),
                // Not a link.
                Err(Errno::INVAL) => {
                    if behind.len() == MAX_DEPTH {
                        return Err(Errno::LOOP);
                    }
                    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let here = rustix::fs::openat(from, segment.as_slice(), flags, Mode::empty())?;
                    behind.push((segment, here));
                    continue;
                }
                Err(errno) => return Err(errno),
            };
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP);
            }
            if target.starts_with(b"/") {
                let (entered, inner) = self.enter(&target)?;
                linked = entered;
                ahead.extend(inner);
                behind.clear();
            } else {
                ahead.extend(reversed(&target));
            }
        }
        let text = behind.iter().map(|(name, _)| name.as_slice());
        let text = text.collect::<Vec<_>>().join(&b'/');
        Ok(RealPath { linked, text })
    }

    /// The permitted folder that contains an absolute path, and the segments below it, the first one last; `EXDEV` if there is
    /// none.
    fn enter(&self, absolute: &[u8]) -> Result<(Option<usize>, Vec<Vec<u8>>), Errno> {
        let below = |path: &[u8]| {
            let root = std::iter::once((None, self));
            let linked = self.linked.iter().enumerate();
            let mut folders = root.chain(linked.map(|(index, tree)| (Some(index), &**tree)));
            folders.find_map(|(index, tree)| Some((index, reversed(tree.inside(path)?))))
        };
        below(absolute)
            .or_else(|| below(&without_parents(absolute)))
            .ok_or(Errno::XDEV)
    }

    /// The part of an absolute path that is below this directory.
    pub(crate) fn inside<'t>(&self, target: &'t [u8]) -> Option<&'t [u8]> {
        [&self.path, &self.configured].into_iter().find_map(|root| {
            let root = root.strip_suffix(b"/").unwrap_or(root);
            let rest = target.strip_prefix(root)?;
            (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
        })
    }

    /// Behaves as on a kernel without `openat2`.
    #[cfg(test)]
    pub(crate) fn forget_openat2(&self) {
        self.stepwise.store(true, Ordering::Relaxed);
        self.linked.iter().for_each(|tree| tree.forget_openat2());
    }
}

impl Node {
    fn from_errno(errno: Errno) -> Self {
        match errno {
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::NAMETOOLONG
            | Errno::LOOP
            | Errno::INVAL
            | Errno::ILSEQ => Self::Absent,
            Errno::XDEV => Self::Outside,
            Errno::ACCESS | Errno::PERM => Self::Refused,
            // Does not mean that the path does not exist.
            errno => Self::Failed(errno),
        }
    }
}

/// Opens and reads at most `limit` bytes of the regular file `name` in `dir`. Follows links to any place: for rule files,
/// whose bytes are never sent. `Ok(None)`: not a regular file, or larger than `limit`.
pub(crate) fn read_rule_file(
    dir: BorrowedFd<'_>,
    name: &str,
    limit: u64,
) -> io::Result<Option<(Metadata, Vec<u8>)>> {
    use std::io::Read as _;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(dir, name, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > limit {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(limit + 1).read_to_end(&mut text)?;
    Ok((u64::try_from(text.len()).is_ok_and(|len| len <= limit)).then_some((metadata, text)))
}

/// The metadata of `name` in `dir`, without opening it. Follows links.
pub(crate) fn metadata_in(dir: BorrowedFd<'_>, name: &str) -> io::Result<Metadata> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    File::from(rustix::fs::openat(dir, name, flags, Mode::empty())?).metadata()
}

fn is_link(descriptor: BorrowedFd<'_>) -> Result<bool, Errno> {
    let stat = rustix::fs::fstat(descriptor)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// The segments of a path, the first one last, without empty ones and `.`.
fn reversed(path: &[u8]) -> Vec<Vec<u8>> {
    let plain = |segment: &&[u8]| !segment.is_empty() && *segment != b".";
    let mut segments: Vec<Vec<u8>> = path
        .split(|b| *b == b'/')
        .filter(plain)
        .map(<[u8]>::to_vec)
        .collect();
    segments.reverse();
    segments
}

/// An absolute path without `..`, each removed with the segment before it.
fn without_parents(absolute: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in absolute.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            name => kept.push(name),
        }
    }
    [b"/", kept.join(&b'/').as_slice()].concat()
}

/// ext2 to ext4, XFS, Btrfs, F2FS, tmpfs and overlayfs (statfs(2)).
const LOCAL_FILE_SYSTEMS: [FsWord; 6] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x0102_1994,
    0x794c_7630,
];

/// Rejects paths that leave the root, and links.
const STRICT: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_SYMLINKS);

/// The same as the kernel's limit.
const MAX_LINKS: usize = 40;

/// The maximum number of directories on a path with links. Each is an open descriptor while the path is resolved.
const MAX_DEPTH: usize = 64;
