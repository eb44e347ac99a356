//! Compression of pages.

use crate::options::ValueKind::{Count, Flag, List, Size, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{MIB, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "compress", List(&Word(&["br", "gzip", "zstd"])), "The codings of responses. With `gzip`, stored pages need no uncompressed copy.")
        .computed(r#"`["br", "gzip"]`; without a preset none"#).example(r#"["br", "gzip", "zstd"]"#),
    row(OptionSection::Site, "compress_types", List(&Text), "The media types to compress; `text/*` means every text type.")
        .or(r#"["text/*", "application/json", "application/javascript", "application/xml", "application/rss+xml", "application/atom+xml", "application/ld+json", "application/manifest+json", "application/xhtml+xml", "application/wasm", "image/svg+xml", "font/ttf", "font/otf"]"#),
    row(OptionSection::Site, "compress_min", Size { least: 64, most: MIB }, "The smallest body to compress.")
        .or(r#""512B""#),
    row(OptionSection::Site, "compress_passed", Flag, "Whether Galley also compresses responses that it does not store.")
        .or("true"),
    row(OptionSection::Site, "gzip_level", Count { least: 1, most: 9 }, "The gzip level of new pages.")
        .or("5"),
    row(OptionSection::Site, "brotli_level", Count { least: 0, most: 11 }, "The Brotli level of new pages.")
        .or("4"),
    row(OptionSection::Site, "zstd_level", Count { least: 1, most: 9 }, "The zstd level of new pages.")
        .or("6"),
    row(OptionSection::Site, "dense_after", Count { least: 0, most: 10_000 }, "The hits after which Galley compresses a page again, at the best level. 0: never.")
        .or("100").unit("hits"),
    row(OptionSection::Site, "dictionaries", Flag, "Whether Galley sends pages over TLS as [the difference to a page that the browser has](../how-to/compression.md#dictionaries).")
        .computed("`true` with `tls`; without it or without a preset `false`").example("false"),
    row(OptionSection::Site, "next_pages", Flag, "Whether stored pages over TLS tell browsers to load [the pages that visitors most often open next](../how-to/caching.md#pages-that-browsers-load-in-advance).")
        .or("false"),
];
