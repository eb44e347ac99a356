//! Media types by file name.
//!
//! Sources: the IANA registry, and for types that it lacks (source maps, icons) what browsers need. An unknown type is sent
//! as bytes; with `nosniff` a browser saves the file and does not execute it. Text has `charset=utf-8`; XML and JSON do not,
//! since they declare their encoding.

/// The media type of a file with this name.
pub(crate) fn content_type(name: &[u8]) -> &'static str {
    let lower = name.to_ascii_lowercase();
    if let Some((_, by_name)) = BY_NAME.iter().find(|(full, _)| full.as_bytes() == lower) {
        return by_name;
    }
    let Some(dot) = lower.iter().rposition(|b| *b == b'.') else {
        return BYTES;
    };
    let extension = lower.get(dot + 1..).unwrap_or_default();
    BY_EXTENSION
        .binary_search_by(|(known, _)| known.as_bytes().cmp(extension))
        .ok()
        .and_then(|at| BY_EXTENSION.get(at))
        .map_or(BYTES, |(_, content_type)| content_type)
}

/// Whether files of this type are worth compressing and may have compressed siblings.
pub(crate) fn is_compressible(content_type: &str) -> bool {
    content_type.starts_with("text/")
        || ["+xml", "+json", "/json", "/xml"]
            .iter()
            .any(|ending| content_type.ends_with(ending))
        || COMPRESSIBLE.contains(&content_type)
}

/// The media type of unknown files.
pub(crate) const BYTES: &str = "application/octet-stream";

const COMPRESSIBLE: [&str; 9] = [
    "application/wasm",
    "application/vnd.ms-fontobject",
    "application/rtf",
    "application/postscript",
    "application/x-tar",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/x-icon",
];

const BY_NAME: [(&str, &str); 3] = [
    ("apple-app-site-association", "application/json"),
    ("license", "text/plain; charset=utf-8"),
    ("readme", "text/plain; charset=utf-8"),
];

/// Sorted by extension.
const BY_EXTENSION: &[(&str, &str)] = &[
    ("3g2", "video/3gpp2"),
    ("3gp", "video/3gpp"),
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("ai", "application/postscript"),
    ("aif", "audio/aiff"),
    ("aiff", "audio/aiff"),
    ("apk", "application/vnd.android.package-archive"),
    ("apng", "image/apng"),
    ("appcache", "text/cache-manifest; charset=utf-8"),
    ("asc", "text/plain; charset=utf-8"),
    ("asf", "video/x-ms-asf"),
    ("atom", "application/atom+xml"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("cjs", "text/javascript; charset=utf-8"),
    ("crt", "application/x-x509-ca-cert"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("cur", "image/x-icon"),
    ("deb", "application/vnd.debian.binary-package"),
    ("der", "application/x-x509-ca-cert"),
    ("djvu", "image/vnd.djvu"),
    ("dmg", "application/x-apple-diskimage"),
    ("doc", "application/msword"),
    ("docm", "application/vnd.ms-word.document.macroenabled.12"),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    (
        "dotx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.template",
    ),
    ("eot", "application/vnd.ms-fontobject"),
    ("eps", "application/postscript"),
    ("epub", "application/epub+zip"),
    ("exe", "application/vnd.microsoft.portable-executable"),
    ("flac", "audio/flac"),
    ("flv", "video/x-flv"),
    ("geojson", "application/geo+json"),
    ("gif", "image/gif"),
    ("glb", "model/gltf-binary"),
    ("gltf", "model/gltf+json"),
    ("gpx", "application/gpx+xml"),
    ("gz", "application/gzip"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("htc", "text/x-component; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("ics", "text/calendar; charset=utf-8"),
    ("ini", "text/plain; charset=utf-8"),
    ("jar", "application/java-archive"),
    ("jfif", "image/jpeg"),
    ("jp2", "image/jp2"),
    ("jpe", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("json5", "application/json5"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("key", "application/vnd.apple.keynote"),
    ("kml", "application/vnd.google-earth.kml+xml"),
    ("kmz", "application/vnd.google-earth.kmz"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4b", "audio/mp4"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mid", "audio/midi"),
    ("midi", "audio/midi"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mkv", "video/x-matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("numbers", "application/vnd.apple.numbers"),
    ("odg", "application/vnd.oasis.opendocument.graphics"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pages", "application/vnd.apple.pages"),
    ("pdf", "application/pdf"),
    ("pem", "application/x-pem-file"),
    ("png", "image/png"),
    ("po", "text/x-gettext-translation; charset=utf-8"),
    ("pot", "text/x-gettext-translation-template; charset=utf-8"),
    ("ppt", "application/vnd.ms-powerpoint"),
    (
        "pptx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ),
    ("ps", "application/postscript"),
    ("psd", "image/vnd.adobe.photoshop"),
    ("rar", "application/vnd.rar"),
    ("rdf", "application/rdf+xml"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tgz", "application/gzip"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("ts", "video/mp2t"),
    ("ttc", "font/collection"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("usdz", "model/vnd.usdz+zip"),
    ("vcf", "text/vcard; charset=utf-8"),
    ("vtt", "text/vtt; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("wma", "audio/x-ms-wma"),
    ("wmv", "video/x-ms-wmv"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsm", "application/vnd.ms-excel.sheet.macroenabled.12"),
    (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    ("xml", "application/xml"),
    ("xsd", "application/xml"),
    ("xsl", "application/xslt+xml"),
    ("xslt", "application/xslt+xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_large() {
        assert!(BY_EXTENSION.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(BY_EXTENSION.len() >= 120);
    }

    #[test]
    fn every_type_is_a_field_value_and_text_has_a_charset() {
        for (extension, content_type) in BY_EXTENSION {
            assert!(http::HeaderValue::from_str(content_type).is_ok());
            assert_eq!(
                content_type.starts_with("text/"),
                content_type.ends_with("; charset=utf-8"),
                "{extension}"
            );
        }
    }

    #[test]
    fn names_determine_the_media_type() {
        for (name, expected) in [
            ("style.css", "text/css; charset=utf-8"),
            ("APP.JS", "text/javascript; charset=utf-8"),
            ("a.b.PNG", "image/png"),
            ("a.woff2", "font/woff2"),
            ("a.svg", "image/svg+xml"),
            ("a.unknown", BYTES),
            ("noextension", BYTES),
            ("", BYTES),
            ("a.", BYTES),
            ("apple-app-site-association", "application/json"),
            ("x.xml", "application/xml"),
            ("3g2", BYTES),
        ] {
            assert_eq!(content_type(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn text_types_are_compressible() {
        for name in [
            "a.css",
            "a.js",
            "a.json",
            "a.svg",
            "a.xml",
            "a.wasm",
            "a.ttf",
            "a.ico",
            "a.rss",
            "a.webmanifest",
        ] {
            assert!(is_compressible(content_type(name.as_bytes())), "{name}");
        }
        for name in ["a.png", "a.woff2", "a.zip", "a.mp4", "a", "a.pdf"] {
            assert!(!is_compressible(content_type(name.as_bytes())), "{name}");
        }
    }
}
