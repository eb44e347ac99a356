//! `xtask bench --scenario dictionary`: what compression dictionaries save in visits of several pages, and what they cost.
//!
//! One WordPress with the sample shop is served by three Galleys over TLS: with `br`, with `zstd`, and with `br` and dictionaries. Chromium
//! reads eight posts of the sample site, eight short posts and eight products at each. Then the load generator compares the processor time
//! of a hit, with the servers in turns. The command fails if hits without a dictionary cost more with the option than [`hits::MOST`].

mod hits;
mod site;
mod visits;

use std::path::Path;

use self::{site::DictionarySite, visits::Visit};
use super::pin::{Cores, on_core};
use crate::{error::CommandError, interrupt::Interrupt};

/// Measures and prints. `quick`: fewer visits and fewer slices.
pub(super) fn run(galley: &Path, quick: bool) -> Result<(), CommandError> {
    let interrupt = Interrupt::listen()?;
    let cores = Cores::choose();
    let site = DictionarySite::start(galley, cores)?;
    let visits = on_core(cores.client, || visits::run(&site, quick, &interrupt))??;
    print_visits(&site, &visits)?;
    interrupt.check()?;
    let hits = on_core(cores.client, || hits::run(&site, quick, &interrupt))??;
    hits.print();
    hits.verdict()
}

fn print_visits(site: &DictionarySite, visits: &[Visit]) -> Result<(), CommandError> {
    println!(
        "Visits of {} pages in Chromium with an empty cache; bytes of bodies; CPU us of Galley for a later page with all its requests\n",
        site::PAGES
    );
    println!(
        "| pages | coding | first page | dictionary | later pages in the coding | each later page | visit | CPU us |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|");
    for visit in visits {
        println!(
            "| {} | `{}` | {} | {} | {} | {} | {} | {:.0} |",
            visit.pages,
            visit.coding,
            visit.first,
            visit.dictionary,
            visit.in_coding,
            visit.later,
            visit.total,
            visit.cpu_us,
        );
    }
    println!("\n| coding | bytes of memory of a page, with the dictionaries |\n|---|--:|");
    for server in &site.servers {
        println!("| `{}` | {} |", server.coding, server.bytes_per_page()?);
    }
    println!();
    Ok(())
}
