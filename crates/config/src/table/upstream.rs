//! Limits for the upstream.

use crate::options::ValueKind::Count;
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{DAY, HOUR, ms, row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "in_flight", Count { least: 0, most: 65_536 }, "Concurrent requests at the upstream. Galley sends fewer when more do not increase throughput. Set it to the number of PHP workers. 0: the workers of a managed PHP, otherwise 20.")
        .or("0").unit("requests"),
    row(OptionSection::Site, "queue", Count { least: 0, most: 1_000_000 }, "Requests that may [wait for the upstream](../how-to/overload.md). Further ones get the stale page, or 503.")
        .or("200").unit("requests"),
    row(OptionSection::Site, "queue_timeout", time(ms(0), HOUR), "How long a request may wait for the upstream; a tenth of it while the queue stays long.")
        .or(r#""10s""#),
    row(OptionSection::Site, "lock_age", time(ms(10), DAY), "How long a fetch may make no progress before the next request for the page goes to the upstream too, and each further one after twice that time.")
        .or(r#""5s""#),
    row(OptionSection::Site, "waiters", Count { least: 1, most: 1_000_000 }, "Requests that may wait for one fetch. Further ones get the stale page, or 503.")
        .or("10000").unit("requests"),
    row(OptionSection::Site, "connect_timeout", time(ms(10), HOUR), "The wait for a connection to the upstream.")
        .or(r#""5s""#),
    row(OptionSection::Site, "first_byte_timeout", time(ms(10), DAY), "The wait for the first byte of the upstream's response.")
        .or(r#""60s""#),
    row(OptionSection::Site, "read_timeout", time(ms(10), DAY), "The wait between two parts of the upstream's response.")
        .or(r#""60s""#),
    row(OptionSection::Site, "idle_share", Count { least: 0, most: 100 }, "Idle connections to an HTTP upstream, in percent of `in_flight`. Each occupies a child of a prefork Apache.")
        .or("25").unit("hundredths"),
    row(OptionSection::Site, "idle_age", time(ms(10), HOUR), "The life of an idle connection to an HTTP upstream. Set it below the upstream's `KeepAliveTimeout`.")
        .or(r#""4s""#),
];
