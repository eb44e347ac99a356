//! `xtask bench --scenario dictionary`: what compression dictionaries save in visits of several pages, and what they cost.
//!
//! One WordPress with the sample shop is served by Galleys over TLS. The parts are scenarios of their own, too:
//!
//! - `dictionary-visits`: Chromium reads eight posts of the sample site, eight short posts and eight products with `br`, with `zstd`, and with
//!   `br` and dictionaries.
//! - `dictionary-hits`: the load generator compares the processor time of a hit, with the servers in turns. It fails if hits without a
//!   dictionary certainly cost more with the option than [`hits::MOST`].
//! - `dictionary-next`: the time from a click to the next page in Chromium, with and without `next_pages`.

mod hits;
mod next;
mod relay;
mod run;
mod site;
mod visits;

pub(super) use self::run::{NAMES, run};
