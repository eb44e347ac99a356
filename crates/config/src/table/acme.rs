//! Automatic certificates.

use std::time::Duration;

use crate::options::ValueKind::{List, Path, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Acme, "email", Text, "The contact address that Galley gives to the certificate authority. Let's Encrypt no longer sends mail; other authorities may require an address.")
        .example(r#""admin@example.com""#),
    row(OptionSection::Acme, "directory", Text, "The URL of the certificate authority's directory (RFC 8555). For tests: `https://acme-staging-v02.api.letsencrypt.org/directory`.")
        .or(r#""https://acme-v02.api.letsencrypt.org/directory""#),
    row(OptionSection::Acme, "ca", Path, "A PEM file with an additional root certificate that Galley accepts for the connection to the directory.")
        .example(r#""/etc/galley/ca.pem""#),
    row(OptionSection::Acme, "storage", Path, "The folder for the account and the certificates. Only Galley may use it. Back it up. Galley creates it if it is missing.")
        .computed("`acme` in `$STATE_DIRECTORY`, else in `/var/lib/galley` for root, else in `$XDG_DATA_HOME/galley` or `~/.local/share/galley`")
        .example(r#""/var/lib/galley/acme""#),
    row(OptionSection::Acme, "challenge", List(&Word(&["http-01", "tls-alpn-01", "dns-01"])), "How Galley proves control of a name, in order of preference: `http-01` on port 80, `tls-alpn-01` on port 443, `dns-01` with a record in the DNS, which wildcards need. After a failure Galley tries the next one.")
        .or(r#"["http-01", "tls-alpn-01"]"#),
    row(OptionSection::Acme, "dns_hook", Path, "For `dns-01`: a program that Galley runs as `PROGRAM set NAME VALUE` to add a TXT record, and as `PROGRAM remove NAME VALUE` to remove it. It must keep other values of the same name.")
        .example(r#""/etc/galley/dns-hook""#),
    row(OptionSection::Acme, "dns_wait", time(Duration::ZERO, Duration::from_secs(3600)), "For `dns-01`: how long Galley waits after the records were added, until all DNS servers of the zone have them.")
        .or(r#""30s""#),
    row(OptionSection::Acme, "profile", Text, "The certificate profile to order, if the authority offers several: Let's Encrypt has `classic`, `tlsserver` and `shortlived`.")
        .computed("the directory's own choice").example(r#""shortlived""#),
    row(OptionSection::Acme, "account_id", Text, "The id of an existing account at the authority (external account binding), if the authority requires one. Needs `account_key_file`.")
        .example(r#""kid-1""#),
    row(OptionSection::Acme, "account_key_file", Path, "A file with the key of that account as the authority issued it (base64url), readable by its owner only.")
        .example(r#""/etc/galley/acme-account.key""#),
    row(OptionSection::Acme, "retry", time(Duration::from_secs(1), Duration::from_secs(86_400)), "The pause after a failed order. It doubles with each further failure, up to 12 hours. Let's Encrypt allows 5 failures per hour for each name.")
        .or(r#""5m""#),
];
