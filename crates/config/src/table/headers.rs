//! Fields of answers, and pages for errors.

use crate::options::ValueKind::{self, List, Path};
use crate::options::{OptionRow, OptionSection};
use crate::table::{STATUS, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "remove_headers", List(&ValueKind::FieldName), "Fields of the upstream's answers that are not sent on: what tells strangers about software. What is given takes the place of the default.")
        .or(r#"["X-Powered-By", "X-Pingback", "Server"]"#),
    row(OptionSection::Site, "set_headers", List(&ValueKind::FieldLine), "Fields that every answer of the site has, in place of those of the same name.")
        .or("[]").example(r#"["X-Content-Type-Options: nosniff", "X-Frame-Options: SAMEORIGIN"]"#),
    row(OptionSection::Site, "add_headers", List(&ValueKind::FieldLine), "Fields that every answer of the site has in addition.")
        .or("[]").example(r#"["Link: </style.css>; rel=preload; as=style"]"#),
    row(OptionSection::SiteErrorPages, STATUS, Path, "The page for this status, from `400` to `599`; as many as needed. As `error_page`, which it goes before.")
        .example(r#""/etc/galley/404.html""#),
];
