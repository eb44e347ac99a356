//! The one address of a site.

use crate::options::ValueKind::{self, Count, Flag};
use crate::options::{OptionRow, OptionSection};
use crate::table::{TEN_YEARS, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "https_redirect", Flag, "Whether what comes in the clear is sent to TLS, with 301, or 308 where the method has to stay. What is to be asked in the clear stays there: purges, and proofs for certificates.")
        .computed("`true` where the site has `tls`").example("true"),
    row(OptionSection::Site, "https_port", Count { least: 1, most: 65_535 }, "The port that it is sent to.")
        .computed("the port of the first of `listen_tls`, else 443").unit("port").example("8443"),
    row(OptionSection::Site, "canonical_host", ValueKind::Host, "The one host of the site: requests for its others are sent there, with the same statuses. It should be the host of WordPress's own address, which else sends them back.")
        .example(r#""www.example.com""#),
    row(OptionSection::Site, "hsts", ValueKind::TimeOrOff { least: std::time::Duration::ZERO, most: TEN_YEARS }, "How long browsers are to ask this host over TLS only (`Strict-Transport-Security`, RFC 6797). Said over TLS alone. It cannot be taken back before its time: begin with an hour. `0s` takes it back.")
        .or(r#""off""#),
    row(OptionSection::Site, "hsts_subdomains", Flag, "Whether that holds for all names below the host too.")
        .or("false"),
    row(OptionSection::Site, "hsts_preload", Flag, "Whether browsers may have it built in. It needs `hsts` of at least `365d` and `hsts_subdomains`.")
        .or("false"),
];
