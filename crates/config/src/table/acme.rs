//! Automatic certificates.

use std::time::Duration;

use crate::options::ValueKind::{List, Path, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Acme, "email", Text, "The contact address for the authority.")
        .example(r#""admin@example.com""#),
    row(OptionSection::Acme, "directory", Text, "The certificate authority (RFC 8555). For tests: `https://acme-staging-v02.api.letsencrypt.org/directory`.")
        .or(r#""https://acme-v02.api.letsencrypt.org/directory""#),
    row(OptionSection::Acme, "ca", Path, "A PEM file with an additional root certificate for the connection to the directory.")
        .example(r#""/etc/galley/ca.pem""#),
    row(OptionSection::Acme, "storage", Path, "The folder for account and certificates, for this Galley only. Back it up.")
        .computed("`acme` in `$STATE_DIRECTORY`, else in `/var/lib/galley` for root, else in `$XDG_DATA_HOME/galley` or `~/.local/share/galley`")
        .example(r#""/var/lib/galley/acme""#),
    row(OptionSection::Acme, "challenge", List(&Word(&["http-01", "tls-alpn-01", "dns-01"])), "How Galley [proves control of a name](../how-to/automatic-certificates.md#challenges), in order of preference.")
        .or(r#"["http-01", "tls-alpn-01"]"#),
    row(OptionSection::Acme, "dns_hook", Path, "For `dns-01`: the [program](../how-to/automatic-certificates.md#wildcards-and-the-dns) that sets and removes TXT records.")
        .example(r#""/etc/galley/dns-hook""#),
    row(OptionSection::Acme, "dns_wait", time(Duration::ZERO, Duration::from_secs(3600)), "For `dns-01`: the wait until all DNS servers of the zone have the records.")
        .or(r#""30s""#),
    row(OptionSection::Acme, "profile", Text, "The certificate profile: Let's Encrypt has `classic`, `tlsserver` and `shortlived`.")
        .computed("the directory's own choice").example(r#""shortlived""#),
    row(OptionSection::Acme, "account_id", Text, "The id of an existing account (external account binding). Needs `account_key_file`.")
        .example(r#""kid-1""#),
    row(OptionSection::Acme, "account_key_file", Path, "The secret file with the key of that account (base64url).")
        .example(r#""/etc/galley/acme-account.key""#),
    row(OptionSection::Acme, "retry", time(Duration::from_secs(1), Duration::from_secs(86_400)), "The pause after a failed order. It doubles with each failure, up to 12 hours.")
        .or(r#""5m""#),
];
