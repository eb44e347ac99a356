//! TLS: towards clients, and towards upstreams.

use crate::options::ValueKind::{self, List, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "listen_tls", List(&ValueKind::Listen), "Where sites with `tls` answer over TLS: addresses, or sockets that systemd hands over.")
        .example(r#"["0.0.0.0:443", "[::]:443"]"#),
    row(OptionSection::Server, "tls_min_version", Word(&["1.2", "1.3"]), "The oldest version of TLS that clients may speak.")
        .or(r#""1.2""#),
    row(OptionSection::Site, "listen_tls", List(&ValueKind::Listen), "Where the site answers over TLS.")
        .computed("`server.listen_tls`, if the site has `tls`").example(r#"["0.0.0.0:8443"]"#),
    row(OptionSection::Site, "tls", ValueKind::Certificates, "`\"auto\"`: Galley gets the certificate by itself, as `[acme]` says. Or the site's certificate, followed by those that lead to its authority, and its key: files in PEM form. Of several, as one with RSA and one with ECDSA, each client gets the one that it understands. They are read again when they change.")
        .example(r#"{ cert = "/etc/letsencrypt/live/example.com/fullchain.pem", key = "/etc/letsencrypt/live/example.com/privkey.pem" }"#),
    row(OptionSection::Site, "upstream_tls", ValueKind::UpstreamTls, "How upstreams with `https://` are spoken with: the name in their certificate where it is not that of the URL, a file with the authorities that vouch for them in place of the system's, and whether anybody has to.")
        .example(r#"{ name = "apache.internal", ca = "/etc/galley/upstream-ca.pem" }"#),
];
