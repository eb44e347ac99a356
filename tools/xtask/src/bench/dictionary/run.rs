//! The measurement, and its tables of visits.

use std::path::Path;

use super::{
    hits,
    site::{self, DictionarySite},
    visits::{self, Visit},
};
use crate::bench::pin::{Cores, on_core};
use crate::{error::CommandError, interrupt::Interrupt};

/// Measures and prints. `quick`: fewer visits and fewer slices.
pub(in crate::bench) fn run(galley: &Path, quick: bool) -> Result<(), CommandError> {
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
