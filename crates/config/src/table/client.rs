//! Trusted proxies, which report the client's address.

use crate::options::ValueKind::{self, List, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "trusted_proxies", List(&ValueKind::Proxy), "Proxies whose header fields for the client's address, scheme and host Galley trusts. `unix`: every process that connects to a unix socket of Galley's. Galley ignores these fields from all other clients.")
        .or("[]").example(r#"["127.0.0.1", "10.0.0.0/8", "unix"]"#),
    row(OptionSection::Server, "client_field", Word(&["x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip"]), "The field in which the trusted proxies send the client's address. If the field has a list, the client is the first address from the right that is not trusted. With `forwarded`, Galley also reads scheme and host there, otherwise from `X-Forwarded-Proto`, `-Host` and `-Port`; with `cf-connecting-ip` only the scheme, because Cloudflare passes on the other two from visitors.")
        .or(r#""x-forwarded-for""#),
    row(OptionSection::Server, "proxy_protocol", List(&ValueKind::Listen), "The listeners whose connections begin with a header of the PROXY protocol, version 1 or 2. Only trusted proxies can connect to them.")
        .or("[]").example(r#"["0.0.0.0:8081"]"#),
];
