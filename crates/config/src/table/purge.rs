//! Who may purge a site, and how.

use crate::options::ValueKind::{self, Flag, List, Path};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "purge_allow", List(&ValueKind::Network), "Networks that may send `PURGE` and `BAN` to the site itself. A request that a proxy has forwarded needs the secret.")
        .or(r#"["127.0.0.1", "::1"]"#),
    row(OptionSection::Site, "purge_secret_file", Path, "A file with a secret. A client that sends the secret may purge from any address, also through a proxy. At least 16 bytes, readable by its owner only.")
        .example(r#""/etc/galley/example.com.purge.token""#),
    row(OptionSection::Site, "purge_get", Flag, "Whether `GET /purge/...` from WordPress purges, as Nginx Helper sends it.")
        .or("false"),
    row(OptionSection::Site, "purge_directory", Path, "A folder in which Galley keeps one file. When that file is removed, Galley purges the site: Nginx Helper empties this folder to purge everything. The user of PHP must be able to remove files there.")
        .example(r#""/var/run/nginx-cache""#),
];
