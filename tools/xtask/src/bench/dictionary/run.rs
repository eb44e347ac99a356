//! The measurement, and its tables of visits.

use std::path::Path;

use super::{
    hits, next,
    site::{self, DictionarySite},
    visits::{self, Visits},
};
use crate::bench::pin::{Cores, on_core};
use crate::{error::CommandError, interrupt::Interrupt};

/// Measures and prints the part with this name, or all. `quick`: fewer visits and fewer slices.
pub(in crate::bench) fn run(galley: &Path, name: &str, quick: bool) -> Result<(), CommandError> {
    let interrupt = Interrupt::listen()?;
    let cores = Cores::choose();
    let site = DictionarySite::start(galley, cores)?;
    let is_wanted = |part: &str| name == "dictionary" || name.ends_with(part);
    if is_wanted("-visits") {
        print_visits(&on_core(cores.client, || {
            visits::run(&site, quick, &interrupt)
        })??);
    }
    if is_wanted("-next") {
        next::print(&on_core(cores.client, || {
            next::run(&site, quick, &interrupt)
        })??);
    }
    if is_wanted("-hits") {
        let hits = on_core(cores.client, || hits::run(&site, quick, &interrupt))??;
        hits.print();
        hits.verdict()?;
    }
    Ok(())
}

fn print_visits(visits: &Visits) {
    println!(
        "Visits of {} pages in Chromium with an empty cache; bytes of bodies; CPU us of Galley for a later page with all its requests\n",
        site::PAGES
    );
    println!(
        "| pages | coding | first page | dictionary | later pages in the coding | each later page | visit | CPU us |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|");
    for visit in &visits.visits {
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
    for (coding, bytes) in &visits.memory {
        println!("| `{coding}` | {bytes} |");
    }
    println!();
}

/// The scenario and its parts.
pub(in crate::bench) const NAMES: [&str; 4] = [
    "dictionary",
    "dictionary-visits",
    "dictionary-hits",
    "dictionary-next",
];
