//! An opened file with what an answer needs to know about it.
//!
//! Where `style.css.br` lies beside `style.css` and is not older, it is sent instead to those who
//! accept it: with the original's type, and an entity tag of its own. A sibling is taken only if it
//! is a plain file: a link could name anything, and it would leave under the original's name.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use galley_rules::encoding::{Coding, Codings};

use crate::tree::Tree;
use crate::types;

/// A regular file that may leave.
#[derive(Debug)]
pub struct Asset {
    /// Opened for reading; bytes are read by position.
    pub file: File,
    /// Bytes in it when it was opened.
    pub length: u64,
    /// When it was last changed.
    pub modified: SystemTime,
    /// Strong entity tag with its quotes, from size, time of change in nanoseconds, inode and
    /// coding (RFC 9110 section 8.8.3).
    pub etag: String,
    /// Media type, with a charset for text.
    pub content_type: &'static str,
    /// The coding of the bytes in `file`.
    pub coding: Coding,
    /// Whether other clients may get this in another coding.
    pub vary_encoding: bool,
}

impl Asset {
    /// Whether its ending names a media type. What has none may be a program.
    pub fn has_known_type(&self) -> bool {
        self.content_type != types::BYTES
    }

    /// Opens the file at a link-free path. `name`: how it was asked for, which decides about its
    /// type.
    pub(crate) fn open(
        tree: &Tree,
        real: &[u8],
        name: &[u8],
        codings: Codings,
    ) -> io::Result<Self> {
        let (file, metadata) = tree.open_file(real)?;
        let content_type = types::content_type(name);
        let mut siblings = Vec::new();
        if types::is_compressible(content_type) {
            siblings = siblings_of(tree, real, &metadata);
        }
        let vary_encoding = !siblings.is_empty();
        let mut available: Vec<Coding> = siblings.iter().map(|sibling| sibling.0).collect();
        available.push(Coding::Identity);
        let best = codings.best(&available).unwrap_or(Coding::Identity);
        let chosen = siblings.into_iter().find(|sibling| sibling.0 == best);
        let (coding, file, metadata) = match chosen {
            Some(sibling) => sibling,
            None => (Coding::Identity, file, metadata),
        };
        Ok(Self {
            length: metadata.len(),
            modified: metadata.modified()?,
            etag: etag(&metadata, coding),
            content_type,
            coding,
            vary_encoding,
            file,
        })
    }
}

/// The usable siblings of a file.
fn siblings_of(tree: &Tree, real: &[u8], original: &Metadata) -> Vec<(Coding, File, Metadata)> {
    let open = |(coding, ending): &(Coding, &[u8])| {
        let (file, metadata) = tree.open_file(&[real, ending].concat()).ok()?;
        let age = |of: &Metadata| (of.mtime(), of.mtime_nsec());
        let is_usable = age(&metadata) >= age(original) && metadata.len() > 0;
        is_usable.then_some((*coding, file, metadata))
    };
    SIBLINGS.iter().filter_map(open).collect()
}

fn etag(metadata: &Metadata, coding: Coding) -> String {
    let coding = match coding {
        Coding::Identity => "",
        Coding::Gzip => "-gz",
        Coding::Brotli => "-br",
        Coding::Zstd => "-zst",
    };
    format!(
        "\"{:x}-{:x}.{:x}-{:x}{coding}\"",
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ino(),
    )
}

const SIBLINGS: [(Coding, &[u8]); 3] = [
    (Coding::Brotli, b".br"),
    (Coding::Zstd, b".zst"),
    (Coding::Gzip, b".gz"),
];
