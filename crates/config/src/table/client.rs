//! Who the client is: proxies in front.

use crate::options::ValueKind::{self, List, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "trusted_proxies", List(&ValueKind::Proxy), "Proxies whose word about the client's address, scheme and host counts. `unix`: whoever opens a unix socket of Galley's. What others send of such fields is dropped.")
        .or("[]").example(r#"["127.0.0.1", "10.0.0.0/8", "unix"]"#),
    row(OptionSection::Server, "client_field", Word(&["x-forwarded-for", "forwarded", "x-real-ip"]), "The field in which they tell the client's address. Of a list the first address from the right counts that is not trusted. With `forwarded` scheme and host are read there too, else in `X-Forwarded-Proto`, `-Host` and `-Port`.")
        .or(r#""x-forwarded-for""#),
    row(OptionSection::Server, "proxy_protocol", List(&ValueKind::Listen), "The listeners whose connections begin with a header of the PROXY protocol, version 1 or 2. Whoever is not trusted cannot connect there.")
        .or("[]").example(r#"["0.0.0.0:8081"]"#),
];
