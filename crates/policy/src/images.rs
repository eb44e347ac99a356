//! Image formats: the denser ones that a client accepts in place of the requested image.
//!
//! Parses `Accept` (RFC 9110 section 12.5.1) of requests for images, with weights and `q=0`. A format counts as
//! accepted only if it is named: clients that do not support it also send `image/*` and `*/*`. These do count for the
//! original, which is sent if it has a higher weight. Never fails: an invalid member is ignored.

use crate::encoding;
use crate::fields;
use crate::outcome::words;

/// The format of a file that may be sent in place of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageFormat {
    /// AV1 Image File Format.
    Avif,
    /// RFC 9649.
    Webp,
}

impl ImageFormat {
    /// All formats, beginning with the one that is usually the smallest; this order breaks ties.
    pub const BY_DENSITY: [Self; 2] = [Self::Avif, Self::Webp];

    /// The media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Avif => "image/avif",
            Self::Webp => "image/webp",
        }
    }

    /// The extension of files, without the dot.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Avif => "avif",
            Self::Webp => "webp",
        }
    }
}

/// The format of an image by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the formats' own names")]
pub enum OriginalFormat {
    Jpeg,
    Png,
    Gif,
    Webp,
}

impl OriginalFormat {
    /// The format by the extension of a path, in any case; `None` if the file has no denser form.
    pub fn of_path(path: &[u8]) -> Option<Self> {
        let tail = path.get(path.len().saturating_sub(MAX_EXTENSION)..)?;
        let dot = tail.iter().rposition(|byte| *byte == b'.')?;
        let ending = tail.get(dot + 1..)?;
        let is = |word: &[u8]| ending.eq_ignore_ascii_case(word);
        match ending.len() {
            3 if is(b"jpg") => Some(Self::Jpeg),
            3 if is(b"png") => Some(Self::Png),
            3 if is(b"gif") => Some(Self::Gif),
            4 if is(b"jpeg") => Some(Self::Jpeg),
            4 if is(b"webp") => Some(Self::Webp),
            _ => None,
        }
    }

    /// Whether a file of `format` can be a denser form of this format.
    pub fn may_become(self, format: ImageFormat) -> bool {
        !(self == Self::Webp && format == ImageFormat::Webp)
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }
}

words! {
    /// The files next to an image that a site sends as other forms of it.
    #[derive(Default)]
    ImageSiblings {
        /// None.
        Off = "off",
        /// Files whose names consist of the image's full name and a further extension: they can mean nothing else.
        #[default]
        FullName = "full-name",
        /// Also files with another extension in its place: `a.webp` for `a.jpg`, which may be another image.
        All = "all",
    }
}

/// The formats that a client accepts in place of an image. The default, a request without `Accept`, is the original only.
///
/// Weights are thousandths; several lines form one list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedImages {
    avif: Option<u16>,
    webp: Option<u16>,
    original: Option<OriginalWeight>,
}

/// The weight of the original, and the exactness of the media range that states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OriginalWeight {
    exactness: u8,
    weight: u16,
}

impl AcceptedImages {
    /// Adds one `Accept` line of a request for an image. If a format occurs twice, the smaller weight counts.
    pub fn read(&mut self, accept_line: &[u8], original: OriginalFormat) {
        for member in fields::members(accept_line) {
            let Some((range, weight)) = encoding::weighted(member) else {
                continue;
            };
            let is = |name: &str| range.eq_ignore_ascii_case(name.as_bytes());
            for (format, slot) in [
                (ImageFormat::Avif, &mut self.avif),
                (ImageFormat::Webp, &mut self.webp),
            ] {
                if is(format.media_type()) {
                    *slot = Some(slot.map_or(weight, |before| before.min(weight)));
                }
            }
            let exactness = match range {
                _ if is(original.media_type()) => 3,
                b"image/*" => 2,
                b"*/*" => 1,
                _ => continue,
            };
            if self
                .original
                .is_none_or(|known| known.exactness < exactness)
            {
                self.original = Some(OriginalWeight { exactness, weight });
            }
        }
    }

    /// The preferred format for which `is_available` returns true, if its weight is not below that of the original: by weight, then
    /// by [`ImageFormat::BY_DENSITY`]. `None`: the original is sent.
    pub fn best_of(self, is_available: impl Fn(ImageFormat) -> bool) -> Option<ImageFormat> {
        let least = self.original.map_or(0, |original| original.weight).max(1);
        let mut best: Option<(u16, ImageFormat)> = None;
        for format in ImageFormat::BY_DENSITY {
            let weight = self.weight(format);
            let is_better = best.is_none_or(|(most, _)| weight > most);
            if weight >= least && is_better && is_available(format) {
                best = Some((weight, format));
            }
        }
        best.map(|(_, format)| format)
    }

    fn weight(self, format: ImageFormat) -> u16 {
        let weight = match format {
            ImageFormat::Avif => self.avif,
            ImageFormat::Webp => self.webp,
        };
        weight.unwrap_or(0)
    }
}

/// The maximum length of an extension with its dot: `.jpeg`, `.webp`.
const MAX_EXTENSION: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AVIF: Option<ImageFormat> = Some(ImageFormat::Avif);
    const WEBP: Option<ImageFormat> = Some(ImageFormat::Webp);

    fn accepted(lines: &[&str]) -> AcceptedImages {
        let mut images = AcceptedImages::default();
        for line in lines {
            images.read(line.as_bytes(), OriginalFormat::Jpeg);
        }
        images
    }

    #[test]
    fn formats_are_selected_by_name_and_weight() {
        let chrome = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8";
        let firefox = "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5";
        let safari = "image/webp,image/avif,image/jxl,image/heic,image/heic-sequence,video/*;q=0.8,image/png,image/svg+xml,image/*;q=0.8,video/*;q=0.8,*/*;q=0.5";
        let navigation =
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
        let table: &[(&[&str], Option<ImageFormat>, Option<ImageFormat>)] = &[
            // The lines, the better of both formats, and the best if only WebP is available.
            (&[], None, None),
            (&[""], None, None),
            (&["*/*"], None, None),
            (&["image/*"], None, None),
            (&[chrome], AVIF, WEBP),
            (&[firefox], AVIF, WEBP),
            (&[safari], AVIF, WEBP),
            (&[navigation], AVIF, WEBP),
            (&["image/webp"], WEBP, WEBP),
            (&["image/avif"], AVIF, None),
            (&["IMAGE/WebP"], WEBP, WEBP),
            (&["image/webp", "image/avif"], AVIF, WEBP),
            (&["image/avif;q=0.5, image/webp"], WEBP, WEBP),
            (&["image/avif;q=0, image/webp"], WEBP, WEBP),
            (&["image/avif, image/avif;q=0"], None, None),
            (&["image/avif;q=0,image/webp;q=0.000,*/*"], None, None),
            (&["image/webp;q=0.5, image/jpeg"], None, None),
            (&["image/webp;q=0.5, image/png"], WEBP, WEBP),
            (&["image/webp;q=0.5, image/*;q=0.6"], None, None),
            (
                &["image/webp;q=0.5, image/*;q=0.6, image/jpeg;q=0.4"],
                WEBP,
                WEBP,
            ),
            (
                &["image/webp;q=0.5, image/jpeg;q=0.4, image/*;q=0.6"],
                WEBP,
                WEBP,
            ),
            (&["image/webp;q=0.001"], WEBP, WEBP),
            (&["image/webp;q=2"], None, None),
            (&["image/webp;q="], None, None),
            (&["image/webpx, ximage/webp, webp"], None, None),
            (&["image/webp ; q=0.3"], WEBP, WEBP),
        ];
        for (lines, of_both, of_webp) in table {
            let images = accepted(lines);
            assert_eq!(images.best_of(|_| true), *of_both, "{lines:?}");
            let only_webp = images.best_of(|format| format == ImageFormat::Webp);
            assert_eq!(only_webp, *of_webp, "{lines:?}");
            assert_eq!(images.best_of(|_| false), None, "{lines:?}");
        }
    }

    #[test]
    fn originals_are_recognized_by_their_extension() {
        for (path, expected) in [
            ("/a.jpg", Some(OriginalFormat::Jpeg)),
            ("/a.JPEG", Some(OriginalFormat::Jpeg)),
            ("/a.b.png", Some(OriginalFormat::Png)),
            (".gif", Some(OriginalFormat::Gif)),
            ("/a.webp", Some(OriginalFormat::Webp)),
            ("/a.avif", None),
            ("/a.svg", None),
            ("/a.jpg/", None),
            ("/jpg", None),
            ("g", None),
            ("", None),
        ] {
            assert_eq!(OriginalFormat::of_path(path.as_bytes()), expected, "{path}");
        }
        assert!(!OriginalFormat::Webp.may_become(ImageFormat::Webp));
        assert!(OriginalFormat::Webp.may_become(ImageFormat::Avif));
    }

    proptest! {
        #[test]
        fn only_named_formats_are_selected(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut images = AcceptedImages::default();
            images.read(&line, OriginalFormat::Png);
            if let Some(format) = images.best_of(|_| true) {
                let name = format.media_type().as_bytes();
                prop_assert!(line.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name)));
            }
        }
    }
}
