//! Redirects to a site's canonical address.

use crate::options::ValueKind::{self, Count, Flag};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{TEN_YEARS, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "https_redirect", Flag, "Whether requests without TLS, except purges and certificate challenges, are redirected to `https`.")
        .computed("`true` if the site has `tls`").example("true"),
    row(OptionSection::Site, "https_port", Count { least: 1, most: 65_535 }, "The port of the redirect to `https`.")
        .computed("the port of the first of `listen_tls`, otherwise 443").unit("port").example("8443"),
    row(OptionSection::Site, "canonical_host", ValueKind::Host, "The host to which the site's other hosts [are redirected](../how-to/rules.md#redirect-to-one-address): that of WordPress's own address.")
        .example(r#""www.example.com""#),
    row(OptionSection::Site, "hsts", ValueKind::TimeOrOff { least: std::time::Duration::ZERO, most: TEN_YEARS }, "How long browsers use only TLS for this host (`Strict-Transport-Security`). `0s` revokes it.")
        .or(r#""off""#),
    row(OptionSection::Site, "hsts_subdomains", Flag, "Whether `hsts` includes all subdomains.")
        .or("false"),
    row(OptionSection::Site, "hsts_preload", Flag, "Whether browser vendors may add the host to their preload lists. Needs `hsts` of at least `365d` and `hsts_subdomains`.")
        .or("false"),
];
