//! Header fields of responses, and error pages.

use crate::options::ValueKind::{self, List, Path};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{STATUS, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "remove_headers", List(&ValueKind::FieldName), "Headers that Galley removes from the upstream's responses.")
        .or(r#"["X-Powered-By", "X-Pingback", "Server"]"#),
    row(OptionSection::Site, "set_headers", List(&ValueKind::FieldLine), "Response headers of the site; they replace those of the same name. `Cache-Control` and `Expires` are set below status 400 only.")
        .or("[]").example(r#"["X-Content-Type-Options: nosniff", "X-Frame-Options: SAMEORIGIN"]"#),
    row(OptionSection::Site, "add_headers", List(&ValueKind::FieldLine), "Headers that Galley adds to every response of the site.")
        .or("[]").example(r#"["Link: </style.css>; rel=preload; as=style"]"#),
    row(OptionSection::SiteErrorPages, STATUS, Path, "The page for this status, `400` to `599`, before `error_page`.")
        .example(r#""/etc/galley/404.html""#),
];
