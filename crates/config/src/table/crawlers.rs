//! Crawlers: how they are proven, and what a site permits them.

use crate::options::ValueKind;
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{DAY, ms, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "crawlers", ValueKind::CrawlerLists, "The addresses of crawlers: the JSON that Google, Bing, OpenAI, Apple and Perplexity publish, or a network in each line. A client in a file is that crawler, whatever its `User-Agent`.")
        .example(r#"{ Googlebot = "/etc/galley/googlebot.json", GPTBot = "/etc/galley/gptbot.json" }"#),
    row(OptionSection::Site, "crawl_delay", ValueKind::TimeOrOff { least: ms(100), most: DAY }, "The time between two generated pages for one proven crawler. Earlier requests get 429 and `Retry-After`; stored pages, files and `robots.txt` are not delayed.")
        .computed("the `Crawl-delay` for the crawler in the file `robots.txt` below `root`; `\"off\"` without one").example(r#""5s""#),
    row(OptionSection::Site, "crawler_rules", ValueKind::CrawlerRules, "Crawlers to refuse or slow, by a part of their `User-Agent`; the longest name decides. `refuse`: 403 for all but `robots.txt`. A time: as `crawl_delay`, for all clients with this name together.")
        .example(r#"{ Bytespider = "refuse", GPTBot = "30s" }"#),
];
