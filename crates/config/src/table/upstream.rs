//! Limits towards the upstream.

use crate::options::ValueKind::Count;
use crate::options::{OptionRow, OptionSection};
use crate::table::{DAY, HOUR, ms, row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "in_flight", Count { least: 0, most: 65_536 }, "Requests at the upstream at one time, at most: fewer where more make it no faster. It should fit the number of PHP workers. 0: as many as workers of a managed PHP, else 20.")
        .or("0").unit("requests"),
    row(OptionSection::Site, "queue", Count { least: 0, most: 1_000_000 }, "Requests that may wait for a place at the upstream. One more takes the place of one of the client that has most waiting, or is that one; it gets a stale copy or 503.")
        .or("200").unit("requests"),
    row(OptionSection::Site, "queue_timeout", time(ms(0), HOUR), "How long a request may wait for a place at the upstream; a tenth of it where the queue stays long.")
        .or(r#""10s""#),
    row(OptionSection::Site, "lock_age", time(ms(10), DAY), "How long a fetch may make no progress before Galley sends the next request for the page to the upstream too. Each further request waits twice as long. From `first_byte_timeout` on it has no effect.")
        .or(r#""5s""#),
    row(OptionSection::Site, "waiters", Count { least: 1, most: 1_000_000 }, "Requests that may wait for one fetch. Further requests get the stale page if one exists, otherwise 503.")
        .or("10000").unit("requests"),
    row(OptionSection::Site, "connect_timeout", time(ms(10), HOUR), "How long a connection to the upstream may take to stand.")
        .or(r#""5s""#),
    row(OptionSection::Site, "first_byte_timeout", time(ms(10), DAY), "How long the upstream may compose before its first byte.")
        .or(r#""60s""#),
    row(OptionSection::Site, "read_timeout", time(ms(10), DAY), "The longest silence inside an answer of the upstream.")
        .or(r#""60s""#),
    row(OptionSection::Site, "idle_share", Count { least: 0, most: 100 }, "What part of `in_flight` may be connections to an HTTP upstream that are kept without a request, in hundredths, for all sites of that server together. Each occupies a child of a prefork Apache. 0: none is kept.")
        .or("25").unit("hundredths"),
    row(OptionSection::Site, "idle_age", time(ms(10), HOUR), "How long a connection to an HTTP upstream is kept without a request. It should be shorter than the upstream's own `KeepAliveTimeout`.")
        .or(r#""4s""#),
];
