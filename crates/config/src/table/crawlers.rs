//! Crawlers: how they are proven, and what a site permits them.

use crate::options::ValueKind;
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{DAY, ms, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "crawlers", ValueKind::CrawlerLists, "[Files with the addresses of crawlers](../how-to/crawlers.md#lists-of-addresses).")
        .example(r#"{ Googlebot = "/etc/galley/googlebot.json", GPTBot = "/etc/galley/gptbot.json" }"#),
    row(OptionSection::Site, "crawl_delay", ValueKind::TimeOrOff { least: ms(100), most: DAY }, "The time between two generated pages for one [proven crawler](../how-to/crawlers.md#pace). Earlier requests get 429.")
        .computed("the `Crawl-delay` for the crawler in the file `robots.txt` below `root`; `\"off\"` without one").example(r#""5s""#),
    row(OptionSection::Site, "crawler_rules", ValueKind::CrawlerRules, "Crawlers to [refuse or slow](../how-to/crawlers.md#refuse-or-slow-a-crawler), by a part of their `User-Agent`: 403, or a time as for `crawl_delay`.")
        .example(r#"{ Bytespider = "refuse", GPTBot = "30s" }"#),
];
