//! Certificates that Galley gets by itself.

use std::time::Duration;

use crate::options::ValueKind::{List, Path, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::{row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Acme, "email", Text, "Where the directory writes to when something is wrong with the certificates. Let's Encrypt writes to nobody any more; others may want it.")
        .example(r#""admin@example.com""#),
    row(OptionSection::Acme, "directory", Text, "The directory of the certificate authority (RFC 8555). For trying things out: `https://acme-staging-v02.api.letsencrypt.org/directory`.")
        .or(r#""https://acme-v02.api.letsencrypt.org/directory""#),
    row(OptionSection::Acme, "ca", Path, "A file with a root, in PEM, that the directory's own certificate may come from, beside those of the machine.")
        .example(r#""/etc/galley/ca.pem""#),
    row(OptionSection::Acme, "storage", Path, "A folder for the account and the certificates: Galley's alone, and to be kept. It is made where it is missing.")
        .computed("`acme` in `$STATE_DIRECTORY`, else in `/var/lib/galley` for root, else in `$XDG_DATA_HOME/galley` or `~/.local/share/galley`")
        .example(r#""/var/lib/galley/acme""#),
    row(OptionSection::Acme, "challenge", List(&Word(&["http-01", "tls-alpn-01"])), "How the directory is shown that a name is ours, the preferred way first: on port 80, or on port 443. After a failure the next way is tried.")
        .or(r#"["http-01", "tls-alpn-01"]"#),
    row(OptionSection::Acme, "profile", Text, "Which kind of certificate to order, where the directory has several: Let's Encrypt has `classic`, `tlsserver` and `shortlived`.")
        .computed("the directory's own choice").example(r#""shortlived""#),
    row(OptionSection::Acme, "account_id", Text, "The name of an account that you have with the authority already (external account binding), where it wants one. Needs `account_key_file`.")
        .example(r#""kid-1""#),
    row(OptionSection::Acme, "account_key_file", Path, "A file with the key of that account, as the authority gave it (base64url): readable by its owner only.")
        .example(r#""/etc/galley/acme-account.key""#),
    row(OptionSection::Acme, "retry", time(Duration::from_secs(1), Duration::from_secs(86_400)), "How long after a failed order the next is made; twice as long after each further one, up to 12 hours. Let's Encrypt allows 5 failures an hour for each name.")
        .or(r#""5m""#),
];
