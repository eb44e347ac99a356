//! Other formats of a picture: AVIF and WebP files that plugins put beside it, or into folders that mirror `wp-content`.
//!
//! A sibling is sent in place of the picture, so it must not be a different picture: its name contains the whole name of
//! the original, unless the site configures otherwise ([`ImageSiblings`]). It must be a plain file without links in its
//! path, permitted by name and `.htaccess` like any file, not older than the original, and smaller.
//!
//! Which siblings exist is cached for a second, as `.htaccess` files are, so a picture that is requested often costs no
//! additional access to the disk. Each sibling is opened again for each resolution of the picture, so one that was removed
//! is never sent.

use std::sync::Arc;
use std::time::Instant;

use galley_policy::images::{ImageFormat, ImageSiblings, OriginalFormat};

use crate::asset::FileForm;
use crate::options::Options;
use crate::path::RelPath;
use crate::recheck::RecentLooks;
use crate::tree::{Node, Tree};

/// The results of looking for other formats of a root's pictures.
#[derive(Default)]
pub(crate) struct PictureNames {
    /// Forms that are there, by the original's path.
    forms: RecentLooks<Arc<[PictureName]>>,
    /// Whether a folder is there.
    folders: RecentLooks<bool>,
}

/// A file that may be a form of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PictureName {
    format: ImageFormat,
    path: Vec<u8>,
}

/// One look for forms.
pub(crate) struct PictureSearch<'s> {
    pub(crate) tree: &'s Tree,
    pub(crate) options: &'s Options,
    pub(crate) now: Instant,
}

impl PictureNames {
    /// The forms of the picture at the link-free path `real`, requested as `name`; at most one of each format.
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
        // The client's wishes were read for the name.
        if search.options.images == ImageSiblings::Off
            || OriginalFormat::of_path(name) != Some(original)
        {
            return Vec::new();
        }
        let held = self.forms.get(real, search.now);
        let is_held = held.is_some();
        let names = held.unwrap_or_else(|| self.candidates(search, real, original));
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
        if !is_held {
            self.forms.put(real, there.into(), search.now);
        }
        usable
    }

    /// Where forms of a picture may be, the best place of each format first.
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
            let is_there = matches!(search.tree.look(folder), Node::Directory);
            self.folders.put(folder, is_there, search.now);
            is_there
        })
    }
}

/// The names of one format, in the order of preference.
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

/// A folder that repeats the tree of originals, and the original's path in it.
struct Mirror {
    folder: Vec<u8>,
    path: Vec<u8>,
}

/// Where plugins keep the other formats of files below `wp-content`: Converter for Media, `CompressX`, and `WebP` Express,
/// whose own folder repeats either the paths below `wp-content` or those below the root.
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

/// What follows `wp-content/` in a path.
fn below_content(real: &[u8]) -> Option<&[u8]> {
    if let Some(below) = real.strip_prefix(CONTENT) {
        return Some(below);
    }
    let inner = [b"/", CONTENT].concat();
    let at = real.windows(inner.len()).position(|part| part == inner)?;
    real.get(at + inner.len()..)
}

const CONTENT: &[u8] = b"wp-content/";

/// Below `wp-content`.
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
    fn names_contain_all_of_the_original_unless_the_site_says_otherwise() {
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
    fn mirrors_repeat_the_path_below_their_folder() {
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
