//! Trusted proxies, which report the client's address.

use crate::options::ValueKind::{self, List, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "trusted_proxies", List(&ValueKind::Proxy), "Proxies whose headers for the client's address, scheme and host Galley trusts. `unix`: all clients of a unix socket.")
        .or("[]").example(r#"["127.0.0.1", "10.0.0.0/8", "unix"]"#),
    row(OptionSection::Server, "client_field", Word(&["x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip"]), "The header in which the [trusted proxies](../how-to/behind-a-proxy.md) send the client's address. Scheme and host come from `X-Forwarded-Proto`, `-Host` and `-Port`, with `forwarded` from that header; with `cf-connecting-ip` only the scheme.")
        .or(r#""x-forwarded-for""#),
    row(OptionSection::Server, "proxy_protocol", List(&ValueKind::Listen), "The listeners that expect the PROXY protocol, version 1 or 2, from trusted proxies only.")
        .or("[]").example(r#"["0.0.0.0:8081"]"#),
];
