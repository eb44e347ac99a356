//! The operator's interface, and tokens for it.

use crate::options::Kind::{self, Path};
use crate::options::{OptionRow, Section};
use crate::table::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(Section::Admin, "listen", Kind::AdminAddress, "Where the admin interface listens. An address needs `token_file`; a unix socket is protected by its folder.")
        .computed("`admin.sock` in `$RUNTIME_DIRECTORY`, else in `$XDG_RUNTIME_DIR/galley`, else in `/run/galley` for root, else in `/tmp/galley-<uid>`")
        .example(r#""unix:/run/galley/admin.sock""#),
    row(Section::Admin, "token_file", Path, "A file with the token that admin requests must carry: at least 16 bytes, readable by its owner only.")
        .example(r#""/etc/galley/admin.token""#),
    row(Section::Site, "token_file", Path, "A file with a token that reaches this site, and no other, over the admin interface: at least 16 bytes, readable by its owner only.")
        .computed("`tokens/HOST.token` beside the configuration file, where there is one: HOST is the first of `hosts`, `any` for `*`")
        .example(r#""/etc/galley/example.com.token""#),
];
