//! Crawlers: how they are proven, and what a site permits them.

use crate::options::ValueKind;
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{DAY, ms, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "crawlers", ValueKind::CrawlerLists, "The files with the addresses that the operators of crawlers publish, by the name of the crawler. Galley reads the JSON of Google, Bing, OpenAI, Apple and Perplexity, and files with an address or network in each line, at start and on reload. A client whose address is in a file is that crawler, whatever its `User-Agent`.")
        .example(r#"{ Googlebot = "/etc/galley/googlebot.json", GPTBot = "/etc/galley/gptbot.json" }"#),
    row(OptionSection::Site, "crawl_delay", ValueKind::TimeOrOff { least: ms(100), most: DAY }, "The minimum time between two pages that are generated for the same proven crawler. Galley answers earlier requests with 429 and `Retry-After`. It never delays stored pages, files or `robots.txt`.")
        .computed("the `Crawl-delay` for the crawler in the file `robots.txt` below `root`; `\"off\"` without one").example(r#""5s""#),
    row(OptionSection::Site, "crawler_rules", ValueKind::CrawlerRules, "Crawlers to refuse or to slow, by a part of their `User-Agent`, proven or not; the longest name decides. `refuse`: Galley answers everything but `robots.txt` with 403. A time: as `crawl_delay`, for all clients with this name together.")
        .example(r#"{ Bytespider = "refuse", GPTBot = "30s" }"#),
];
