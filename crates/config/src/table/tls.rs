//! TLS for clients, and for upstreams.

use crate::options::ValueKind::{self, List, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "listen_tls", List(&ValueKind::Listen), "The TLS listeners of all sites with `tls`.")
        .example(r#"["0.0.0.0:443", "[::]:443"]"#),
    row(OptionSection::Server, "listen_quic", List(&ValueKind::Listen), "The UDP addresses of HTTP/3, for all sites with `tls`. `[]` turns it off. Browsers learn of it from `Alt-Svc`.")
        .computed("the addresses of the TLS listeners, except those of `proxy_protocol`").example(r#"["0.0.0.0:443", "[::]:443"]"#),
    row(OptionSection::Server, "early_data", ValueKind::Flag, "Whether clients that return over HTTP/3 may send requests with the first datagram (0-RTT). Only [stored pages and files](../how-to/http3.md#early-data) answer these at once.")
        .or("false"),
    row(OptionSection::Server, "tls_min_version", Word(&["1.2", "1.3"]), "The oldest TLS version of clients.")
        .or(r#""1.2""#),
    row(OptionSection::Site, "listen_tls", List(&ValueKind::Listen), "The TLS listeners of the site.")
        .computed("`server.listen_tls`, if the site has `tls`").example(r#"["0.0.0.0:8443"]"#),
    row(OptionSection::Site, "tls", ValueKind::Certificates, "`auto`: a certificate from `[acme]`. Otherwise [PEM files](../how-to/https.md#certificates) with chain and key, or several pairs, such as RSA and ECDSA.")
        .example(r#"{ cert = "/etc/letsencrypt/live/example.com/fullchain.pem", key = "/etc/letsencrypt/live/example.com/privkey.pem" }"#),
    row(OptionSection::Site, "http3", ValueKind::Flag, "Whether the site is served over HTTP/3.")
        .or("true"),
    row(OptionSection::Site, "upstream_tls", ValueKind::UpstreamTls, "How Galley [verifies `https://` upstreams](../how-to/https.md#tls-towards-the-upstream).")
        .example(r#"{ name = "apache.internal", ca = "/etc/galley/upstream-ca.pem" }"#),
];
