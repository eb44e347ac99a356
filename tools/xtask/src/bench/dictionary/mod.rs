//! `xtask bench --scenario dictionary`: what compression dictionaries save in visits of several pages, and what they cost.
//!
//! One WordPress with the sample shop is served by three Galleys over TLS: with `br`, with `zstd`, and with `br` and dictionaries. Chromium
//! reads eight posts of the sample site, eight short posts and eight products at each. Then the load generator compares the processor time
//! of a hit, with the servers in turns. The command fails if hits without a dictionary cost more with the option than [`hits::MOST`].

mod hits;
mod run;
mod site;
mod visits;

pub(super) use self::run::run;
