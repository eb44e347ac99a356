//! Several servers of one upstream: distribution of requests, and health checks.

use crate::options::ValueKind::{self, Count, List, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{HOUR, ms, row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "balance", Word(&["round-robin", "least-connections", "client", "cookie"]), "[How several servers share the requests](../how-to/load-balancing.md#choose-a-method).")
        .or(r#""round-robin""#),
    row(OptionSection::Site, "balance_cookie", Text, "The cookie that `balance = \"cookie\"` reads.")
        .example(r#""PHPSESSID""#),
    row(OptionSection::Site, "slow_start", time(ms(0), HOUR), "How long the weight of a returned server rises from a tenth to the whole. Not with `client` and `cookie`.")
        .or(r#""0s""#),
    row(OptionSection::Site, "health_check", ValueKind::UrlPath, "A path that Galley [requests from each server](../how-to/load-balancing.md#health-checks): with `php` a script or PHP-FPM's `ping.path`. By default only failed requests take a server out.")
        .example(r#""/health""#),
    row(OptionSection::Site, "health_interval", time(ms(100), HOUR), "The pause between two checks of a server.")
        .or(r#""5s""#),
    row(OptionSection::Site, "health_timeout", time(ms(10), HOUR), "The time for a check.")
        .or(r#""2s""#),
    row(OptionSection::Site, "health_rise", Count { least: 1, most: 100 }, "Passed checks in a row that return a server.")
        .or("2").unit("checks"),
    row(OptionSection::Site, "health_fall", Count { least: 1, most: 100 }, "Failed checks in a row that take a server out.")
        .or("3").unit("checks"),
    row(OptionSection::Site, "health_status", List(&Count { least: 200, most: 599 }), "The statuses that pass.")
        .computed("200 to 399").example("[200]"),
];
