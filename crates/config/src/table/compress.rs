//! Compression of pages.

use crate::options::ValueKind::{Count, Flag, List, Size, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::{MIB, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "compress", List(&Word(&["br", "gzip", "zstd"])), "Codings in which stored pages are kept beside the plain one, for clients that take them, and in which other pages are sent. `[]`: none.")
        .computed(r#"`["br", "gzip"]`; without a preset none"#).example(r#"["br", "gzip", "zstd"]"#),
    row(OptionSection::Site, "compress_types", List(&Text), "Media types that are compressed; `text/*` is every type of text.")
        .or(r#"["text/*", "application/json", "application/javascript", "application/xml", "application/rss+xml", "application/atom+xml", "application/ld+json", "application/manifest+json", "application/xhtml+xml", "application/wasm", "image/svg+xml", "font/ttf", "font/otf"]"#),
    row(OptionSection::Site, "compress_min", Size { least: 64, most: MIB }, "The shortest body that is compressed.")
        .or(r#""512B""#),
    row(OptionSection::Site, "compress_passed", Flag, "Whether answers for one client alone, such as pages of users who are logged in, are compressed on their way.")
        .or("true"),
    row(OptionSection::Site, "gzip_level", Count { least: 1, most: 9 }, "How hard gzip tries when a page was just stored.")
        .or("5"),
    row(OptionSection::Site, "brotli_level", Count { least: 0, most: 11 }, "How hard br tries when a page was just stored.")
        .or("4"),
    row(OptionSection::Site, "zstd_level", Count { least: 1, most: 9 }, "How hard zstd tries when a page was just stored.")
        .or("6"),
    row(OptionSection::Site, "dense_after", Count { least: 0, most: 10_000 }, "After so many hits a page is compressed again, at the densest levels that pay. 0: never.")
        .or("100").unit("hits"),
];
