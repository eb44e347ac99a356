//! An opened file, and the properties that a response needs.
//!
//! If `style.css.br` exists next to `style.css` and is not older, it is sent instead to clients that accept it: with the type of
//! the original, and a separate entity tag. A sibling must be a plain file: a link could point to any file, which would be
//! sent under the original's name. Other formats of a picture are siblings, too (`pictures`), each with its media type.
//!
//! A cache that keeps a file beyond a request must be able to detect that the file has changed. Size, inode and times show
//! that only if none of the times is newer than the resolution of the clock that writes them: [`Asset::is_settled`].

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, SystemTime};

use galley_policy::encoding::{AcceptedCodings, Coding};
use galley_policy::images::{AcceptedImages, ImageFormat};
use http::header::{self, HeaderMap, HeaderValue};
use rustix::io::Errno;

use crate::recheck::is_settled;
use crate::tree::Tree;
use crate::types;

/// A regular file that may be sent, in all its forms.
#[derive(Debug)]
pub struct Asset {
    /// The original file.
    pub plain: FileForm,
    /// The files that may be sent in its place: compressed files, or a picture in other formats, never both.
    pub siblings: Vec<FileForm>,
    /// The media type of the original file, with a charset for text.
    pub content_type: &'static str,
}

/// One file that may be sent.
#[derive(Debug)]
pub struct FileForm {
    /// The file, opened for reading. Bytes are read by position.
    pub file: File,
    /// The size in bytes when the file was opened.
    pub length: u64,
    /// The content coding of the bytes.
    pub coding: Coding,
    /// The format of a picture that may be sent in place of another one.
    pub format: Option<ImageFormat>,
    /// The modification time.
    modified: SystemTime,
    identity: FileIdentity,
}

/// The properties that show that a file is the one that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Asset {
    /// Whether the file extension has a media type. A file without one may be a program.
    pub fn has_known_type(&self) -> bool {
        self.content_type != types::BYTES
    }

    /// The form that the client prefers.
    pub fn best(&self, codings: AcceptedCodings, images: AcceptedImages) -> &FileForm {
        self.best_sibling(codings, images)
            .and_then(|at| self.siblings.get(at))
            .unwrap_or(&self.plain)
    }

    /// As [`Asset::best`]. Closes the other forms.
    pub fn into_best(mut self, codings: AcceptedCodings, images: AcceptedImages) -> FileForm {
        match self.best_sibling(codings, images) {
            Some(at) => self.siblings.swap_remove(at),
            None => self.plain,
        }
    }

    /// The index of the best sibling, if that is better than the original.
    fn best_sibling(&self, codings: AcceptedCodings, images: AcceptedImages) -> Option<usize> {
        let place = |is_match: &dyn Fn(&FileForm) -> bool| self.siblings.iter().position(is_match);
        if self.is_picture() {
            let format =
                images.best_of(|format| place(&|form| form.format == Some(format)).is_some())?;
            return place(&|form| form.format == Some(format));
        }
        let available: Vec<Coding> = self.forms().map(|form| form.coding).collect();
        let best = codings.best(&available)?;
        place(&|form| form.coding == best)
    }

    /// The media type of a form, with a charset for text.
    pub fn type_of(&self, form: &FileForm) -> &'static str {
        form.format
            .map_or(self.content_type, ImageFormat::media_type)
    }

    /// Whether the siblings are other formats of a picture.
    fn is_picture(&self) -> bool {
        self.siblings.iter().any(|form| form.format.is_some())
    }

    /// The head of a 200 with all of `form`, without `Content-Length`, `Date` and the fields that depend on the request.
    pub fn fields(&self, form: &FileForm) -> HeaderMap {
        let mut fields = HeaderMap::new();
        if let Ok(etag) = HeaderValue::from_str(&form.etag()) {
            fields.insert(header::ETAG, etag);
        }
        if let Some(last_modified) = date(form.modified) {
            fields.insert(header::LAST_MODIFIED, last_modified);
        }
        if !self.siblings.is_empty() {
            let chosen_by = if self.is_picture() {
                "accept"
            } else {
                "accept-encoding"
            };
            fields.insert(header::VARY, HeaderValue::from_static(chosen_by));
        }
        let content_type = HeaderValue::from_static(self.type_of(form));
        fields.insert(header::CONTENT_TYPE, content_type);
        fields.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        let nosniff = HeaderValue::from_static("nosniff");
        fields.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
        if form.coding != Coding::Identity {
            let coding = HeaderValue::from_static(form.coding.token());
            fields.insert(header::CONTENT_ENCODING, coding);
        }
        fields
    }

    /// Bytes that change if the file, one of its siblings, or their number changes. They are meaningful only in this process,
    /// and only for settled files.
    pub fn stamp(&self) -> Box<[u8]> {
        let mut stamp = Vec::new();
        for form in self.forms() {
            stamp.extend_from_slice(form.coding.token().as_bytes());
            stamp.extend_from_slice(form.format.map_or("", ImageFormat::ending).as_bytes());
            form.identity.write(&mut stamp);
        }
        stamp.into()
    }

    /// Whether every later change will show in [`Asset::stamp`]. `before`: the wall-clock time before the file was looked up.
    /// Timestamps of file systems have steps of usually some milliseconds and at worst two seconds: a file that was changed
    /// within the last step may be changed again and look the same. Only the change time of the inode counts, because no program
    /// can set it.
    pub fn is_settled(&self, before: SystemTime) -> bool {
        self.forms().all(|form| {
            let (seconds, nanoseconds) = form.identity.changed;
            is_settled(seconds, nanoseconds, before)
        })
    }

    /// All forms, the original first.
    pub fn forms(&self) -> impl Iterator<Item = &FileForm> {
        std::iter::once(&self.plain).chain(&self.siblings)
    }

    /// Opens the file at a link-free path, without its siblings.
    pub(crate) fn open_plain(tree: &Tree, real: &[u8], name: &[u8]) -> io::Result<Self> {
        Ok(Self {
            plain: FileForm::open(tree, real, Coding::Identity)?,
            siblings: Vec::new(),
            content_type: types::content_type(name),
        })
    }

    /// Opens the file at a link-free path. `name`: the requested name, which determines the media type.
    pub(crate) fn open(tree: &Tree, real: &[u8], name: &[u8]) -> io::Result<Self> {
        let mut asset = Self::open_plain(tree, real, name)?;
        if types::is_compressible(asset.content_type) {
            asset.siblings = siblings_of(tree, real, &asset.plain);
        }
        Ok(asset)
    }
}

impl FileForm {
    fn open(tree: &Tree, real: &[u8], coding: Coding) -> io::Result<Self> {
        let (file, metadata) = tree.open_file(real)?;
        Ok(Self {
            length: metadata.len(),
            modified: metadata.modified()?,
            identity: FileIdentity::of(&metadata),
            coding,
            format: None,
            file,
        })
    }

    /// Opens a picture of `format` that replaces another one.
    pub(crate) fn open_picture(tree: &Tree, real: &[u8], format: ImageFormat) -> io::Result<Self> {
        let form = Self::open(tree, real, Coding::Identity)?;
        let format = Some(format);
        Ok(Self { format, ..form })
    }

    /// Whether the form is not older than the file that it would replace, and not empty.
    pub(crate) fn is_up_to_date_with(&self, plain: &Self) -> bool {
        self.identity.modified >= plain.identity.modified && self.length > 0
    }

    /// All bytes, or `None` if the file has changed since it was opened: then the bytes may be a mixture.
    pub fn read_whole(&self) -> io::Result<Option<Vec<u8>>> {
        let Ok(length) = usize::try_from(self.length) else {
            return Ok(None);
        };
        let mut bytes = vec![0; length];
        match self.file.read_exact_at(&mut bytes, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let is_same = FileIdentity::of(&self.file.metadata()?) == self.identity;
        Ok(is_same.then_some(bytes))
    }

    /// A strong entity tag with its quotes, made of size, modification time in nanoseconds, inode and coding (RFC 9110
    /// section 8.8.3).
    fn etag(&self) -> String {
        let coding = match self.coding {
            Coding::Identity => "",
            Coding::Gzip => "-gz",
            Coding::Brotli => "-br",
            Coding::Zstd => "-zst",
            // No file has this form.
            Coding::Dcz => "-dcz",
        };
        let FileIdentity {
            inode,
            size,
            modified: (seconds, nanoseconds),
            ..
        } = self.identity;
        format!("\"{size:x}-{seconds:x}.{nanoseconds:x}-{inode:x}{coding}\"")
    }
}

impl FileIdentity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        for number in [self.device, self.inode, self.size] {
            out.extend_from_slice(&number.to_ne_bytes());
        }
        for (seconds, nanoseconds) in [self.modified, self.changed] {
            out.extend_from_slice(&seconds.to_ne_bytes());
            out.extend_from_slice(&nanoseconds.to_ne_bytes());
        }
    }
}

/// Whether the error says nothing about the file: no descriptors or memory left, a failing disk.
pub(crate) fn is_resource_error(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(
        errno,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO)
    )
}

/// The usable siblings of a file.
fn siblings_of(tree: &Tree, real: &[u8], plain: &FileForm) -> Vec<FileForm> {
    let open = |(coding, ending): &(Coding, &[u8])| {
        let form = FileForm::open(tree, &[real, ending].concat(), *coding).ok()?;
        form.is_up_to_date_with(plain).then_some(form)
    };
    SIBLINGS.iter().filter_map(open).collect()
}

/// `Last-Modified`; `None` for a time that an HTTP date cannot express. A file may have any time.
fn date(modified: SystemTime) -> Option<HeaderValue> {
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    if since >= YEAR_10000 {
        return None;
    }
    HeaderValue::from_str(&httpdate::fmt_http_date(modified)).ok()
}

const SIBLINGS: [(Coding, &[u8]); 3] = [
    (Coding::Brotli, b".br"),
    (Coding::Zstd, b".zst"),
    (Coding::Gzip, b".gz"),
];

/// The first second that needs a year of five digits, which HTTP dates do not have.
const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);

#[cfg(test)]
mod tests;
