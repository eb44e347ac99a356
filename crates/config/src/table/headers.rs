//! Fields of answers, and pages for errors.

use crate::options::Kind::{self, List, Path};
use crate::options::{OptionRow, Section};
use crate::table::{STATUS, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(Section::Site, "remove_headers", List(&Kind::FieldName), "Fields of the upstream's answers that are not sent on: what tells strangers about software. What is given takes the place of the default.")
        .or(r#"["X-Powered-By", "X-Pingback", "Server"]"#),
    row(Section::Site, "set_headers", List(&Kind::FieldLine), "Fields that every answer of the site has, in place of those of the same name.")
        .or("[]").example(r#"["X-Content-Type-Options: nosniff", "X-Frame-Options: SAMEORIGIN"]"#),
    row(Section::Site, "add_headers", List(&Kind::FieldLine), "Fields that every answer of the site has in addition.")
        .or("[]").example(r#"["Link: </style.css>; rel=preload; as=style"]"#),
    row(Section::SiteErrorPages, STATUS, Path, "The page for this status, from `400` to `599`; as many as needed. As `error_page`, which it goes before.")
        .example(r#""/etc/galley/404.html""#),
];
