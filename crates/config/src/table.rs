//! The option table. Its rows are in one file for each area.
//!
//! To add an option, add a row there and read it in `assemble` or `site`; the tests cover all rows. Within a section the
//! reference page lists the rows in the order of the areas here. An option whose feature does not exist yet also has a row,
//! so that it is rejected with a reason and not as an unknown name.

mod access;
mod acme;
mod admin;
mod balance;
mod cache;
mod client;
mod cluster;
mod compress;
mod crawlers;
mod headers;
mod http2;
mod log;
mod php;
mod process;
mod purge;
mod redirect;
mod row;
mod rule;
mod server;
mod site;
mod tls;
mod upgrade;
mod upstream;

pub use row::{ADDED_TO_SITE, AS_IN_SITE, STATUS};

use crate::options::{OptionRow, OptionSection};

/// All options by area, first those whose rows open a section.
static TABLE: &[&[OptionRow]] = &[
    server::ROWS,
    site::ROWS,
    rule::ROWS,
    tls::ROWS,
    http2::ROWS,
    client::ROWS,
    process::ROWS,
    redirect::ROWS,
    headers::ROWS,
    acme::ROWS,
    cluster::ROWS,
    access::ROWS,
    crawlers::ROWS,
    php::ROWS,
    upstream::ROWS,
    balance::ROWS,
    upgrade::ROWS,
    cache::ROWS,
    purge::ROWS,
    compress::ROWS,
    admin::ROWS,
    log::ROWS,
];

/// All options in the order of the reference page.
pub fn options() -> impl Iterator<Item = &'static OptionRow> + Clone {
    TABLE.iter().copied().flatten()
}

/// The row of an option, if it exists.
pub(crate) fn find(section: OptionSection, name: &str) -> Option<&'static OptionRow> {
    options().find(|row| row.section == section && row.name == name)
}

/// The rows of one section.
pub(crate) fn rows(section: OptionSection) -> impl Iterator<Item = &'static OptionRow> {
    options().filter(move |row| row.section == section)
}
