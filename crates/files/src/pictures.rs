//! Other formats of a picture: AVIF and WebP files that plugins store next to it, or in directories that mirror `wp-content`.
//!
//! A sibling is sent in place of the picture, so it must not be a different picture: its name contains the whole name of
//! the original, unless the site configures otherwise ([`ImageSiblings`]). It must be a plain file without links in its
//! path, permitted by name and `.htaccess` like any file, not older than the original, and smaller.
//!
//! The names of existing siblings are cached for a second, as `.htaccess` files are, so a picture that is requested often
//! needs no additional access to the disk. Each sibling is opened again for each resolution of the picture, so a removed
//! one is never sent.

use std::sync::Arc;
use std::time::Instant;

use galley_policy::images::{ImageFormat, ImageSiblings, OriginalFormat};

use crate::asset::FileForm;
use crate::options::Options;
use crate::path::RelPath;
use crate::recheck::RecentResults;
use crate::tree::{Node, Tree};

/// The cached names of other formats of a root's pictures.
#[derive(Default)]
pub(crate) struct PictureNames {
    /// Existing siblings by the original's path.
    forms: RecentResults<Arc<[PictureName]>>,
    /// Whether a directory exists.
    folders: RecentResults<bool>,
}

/// A file that may be another format of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PictureName {
    format: ImageFormat,
    path: Vec<u8>,
}

/// The parameters of a search for siblings.
pub(crate) struct PictureSearch<'s> {
    pub(crate) tree: &'s Tree,
    pub(crate) options: &'s Options,
    pub(crate) now: Instant,
}

impl PictureNames {
    /// The siblings of the picture at the link-free path `real`, requested as `name`; at most one of each format.
    pub(crate) fn usable(
        &self,
        search: &PictureSearch<'_>,
        real: &[u8],
        name: &[u8],
        plain: &FileForm,
        may_be_sent: impl Fn(&RelPath) -> bool,
    ) -> Vec<FileForm> {
        let Some(original) = OriginalFormat::of_path(real) else {
            return Vec::new();
        };
        // The accepted formats were determined from the requested name.
        if search.options.images == ImageSiblings::Off
            || OriginalFormat::of_path(name) != Some(original)
        {
            return Vec::new();
        }
        let cached = self.forms.get(real, search.now);
        let is_cached = cached.is_some();
        let names = cached.unwrap_or_else(|| self.candidates(search, real, original));
        let mut there = Vec::new();
        let mut usable: Vec<FileForm> = Vec::new();
        for one in names.iter() {
            let Ok(form) = FileForm::open_picture(search.tree, &one.path, one.format) else {
                continue;
            };
            there.push(one.clone());
            let is_first = usable.iter().all(|other| other.format != form.format);
            let is_permitted =
                || RelPath::from_relative(&one.path).is_some_and(|path| may_be_sent(&path));
            let is_usable = form.is_up_to_date_with(plain) && form.length < plain.length;
            if is_first && is_usable && is_permitted() {
                usable.push(form);
            }
        }
        if !is_cached {
            self.forms.put(real, there.into(), search.now);
        }
        usable
    }

    /// The paths at which siblings may exist, the best path of each format first.
    fn candidates(
        &self,
        search: &PictureSearch<'_>,
        real: &[u8],
        original: OriginalFormat,
    ) -> Arc<[PictureName]> {
        let mirrors: Vec<Vec<u8>> = if search.options.wordpress {
            mirrors_of(real)
                .into_iter()
                .filter(|mirror| self.has_folder(search, &mirror.folder))
                .map(|mirror| mirror.path)
                .collect()
        } else {
            Vec::new()
        };
        let formats = ImageFormat::BY_DENSITY.into_iter();
        formats
            .filter(|format| original.may_become(*format))
            .flat_map(|format| {
                let paths = paths_of(real, format, &mirrors, search.options.images);
                let name = move |path| PictureName { format, path };
                paths.into_iter().map(name)
            })
            .collect()
    }

    fn has_folder(&self, search: &PictureSearch<'_>, folder: &[u8]) -> bool {
        self.folders.get(folder, search.now).unwrap_or_else(|| {
            let exists = matches!(search.tree.look(folder), Node::Directory);
            self.folders.put(folder, exists, search.now);
            exists
        })
    }
}

/// The possible paths of one format, in order of preference.
fn paths_of(
    real: &[u8],
    format: ImageFormat,
    mirrors: &[Vec<u8>],
    which: ImageSiblings,
) -> Vec<Vec<u8>> {
    let ending = format.ending().as_bytes();
    let appended = |path: &[u8]| [path, b".", ending].concat();
    let mut paths = vec![appended(real)];
    let dot = real.iter().rposition(|byte| *byte == b'.');
    let (stem, own) = dot.map_or((real, &b""[..]), |at| {
        (&real[..at], real.get(at + 1..).unwrap_or_default())
    });
    paths.push([stem, b"-", own, b".", ending].concat());
    paths.extend(mirrors.iter().map(|mirror| appended(mirror)));
    if which == ImageSiblings::All {
        paths.push(appended(stem));
    }
    paths
}

/// A directory that mirrors the tree of originals, and the original's path in it.
struct Mirror {
    folder: Vec<u8>,
    path: Vec<u8>,
}

/// The directories where plugins store other formats of files below `wp-content`: Converter for Media, `CompressX`, and
/// `WebP` Express, whose directory mirrors either the paths below `wp-content` or those below the root.
fn mirrors_of(real: &[u8]) -> Vec<Mirror> {
    let Some(below) = below_content(real) else {
        return Vec::new();
    };
    let content = &real[..real.len() - below.len()];
    let mirror = |folder: &[u8], path: &[u8]| {
        let folder = [content, folder].concat();
        let path = [&folder, b"/".as_slice(), path].concat();
        Mirror { folder, path }
    };
    let mut mirrors: Vec<Mirror> = MIRRORS.iter().map(|folder| mirror(folder, below)).collect();
    mirrors.push(mirror(MIRROR_OF_ROOT, real));
    mirrors
}

/// The part of a path after `wp-content/`.
fn below_content(real: &[u8]) -> Option<&[u8]> {
    if let Some(below) = real.strip_prefix(CONTENT) {
        return Some(below);
    }
    let inner = [b"/", CONTENT].concat();
    let at = real.windows(inner.len()).position(|part| part == inner)?;
    real.get(at + inner.len()..)
}

const CONTENT: &[u8] = b"wp-content/";

/// Directories below `wp-content`.
const MIRRORS: [&[u8]; 3] = [
    b"uploads-webpc",
    b"compressx-nextgen",
    b"webp-express/webp-images",
];
const MIRROR_OF_ROOT: &[u8] = b"webp-express/webp-images/doc-root";

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(paths: Vec<Vec<u8>>) -> Vec<String> {
        let text = |path| String::from_utf8(path).unwrap();
        paths.into_iter().map(text).collect()
    }

    #[test]
    fn names_contain_the_whole_original_name_by_default() {
        let full = texts(paths_of(
            b"u/a.b.JPG",
            ImageFormat::Avif,
            &[],
            ImageSiblings::FullName,
        ));
        assert_eq!(full, ["u/a.b.JPG.avif", "u/a.b-JPG.avif"]);
        let mirrors = [b"m/a.png".to_vec()];
        let all = texts(paths_of(
            b"a.png",
            ImageFormat::Webp,
            &mirrors,
            ImageSiblings::All,
        ));
        assert_eq!(all, ["a.png.webp", "a-png.webp", "m/a.png.webp", "a.webp"]);
    }

    #[test]
    fn mirrors_contain_the_same_path_below_their_folder() {
        let paths = |real: &[u8]| texts(mirrors_of(real).into_iter().map(|one| one.path).collect());
        assert_eq!(
            paths(b"wp-content/uploads/2024/a.jpg"),
            [
                "wp-content/uploads-webpc/uploads/2024/a.jpg",
                "wp-content/compressx-nextgen/uploads/2024/a.jpg",
                "wp-content/webp-express/webp-images/uploads/2024/a.jpg",
                "wp-content/webp-express/webp-images/doc-root/wp-content/uploads/2024/a.jpg",
            ]
        );
        assert_eq!(
            paths(b"blog/wp-content/themes/t/a.jpg")[0],
            "blog/wp-content/uploads-webpc/themes/t/a.jpg"
        );
        assert!(paths(b"images/a.jpg").is_empty() && paths(b"xwp-content/a.jpg").is_empty());
    }
}
