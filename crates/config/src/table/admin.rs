//! The admin interface and its tokens.

use crate::options::ValueKind::{self, Path};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Admin, "listen", ValueKind::AdminAddress, "The listener. An address needs `token_file`; the folder protects a unix socket.")
        .computed("`admin.sock` in `$RUNTIME_DIRECTORY`, else in `$XDG_RUNTIME_DIR/galley`, else in `/run/galley` for root, else in `/tmp/galley-<uid>`")
        .example(r#""unix:/run/galley/admin.sock""#).needs_restart(),
    row(OptionSection::Admin, "token_file", Path, "The secret file with the token of admin requests, at least 16 bytes.")
        .example(r#""/etc/galley/admin.token""#),
    row(OptionSection::Site, "dashboard", ValueKind::UrlPath, "The path of the [dashboard](../how-to/dashboard.md#below-an-address-of-the-site) on the site's hosts, over TLS. It hides files and pages below it.")
        .computed("no dashboard on the site's address").example(r#""/galley/""#),
    row(OptionSection::Site, "dashboard_auth", Path, "The names and passwords for `dashboard`, in the format of `htpasswd`.")
        .example(r#""/etc/galley/example.com.dashboard.htpasswd""#),
    row(OptionSection::Site, "token_file", Path, "The secret file with the token for this site in the admin interface, at least 16 bytes.")
        .computed("`tokens/NAME.token` beside the configuration file, where there is one: NAME is the `name` of the site, otherwise one of its `hosts`")
        .example(r#""/etc/galley/example.com.token""#),
];
