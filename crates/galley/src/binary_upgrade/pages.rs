//! The pages in memory, in a sealed file that is in memory, too (`memfd_create(2)`).

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::sync::Arc;

use galley_cache::disk::{DiskClock, PageReader, PageWriter};
use galley_cache::entry::Entry;
use galley_cache::memory::Memory;

use galley_codec::unpack::unpack;
use galley_sys::memory_file;

/// The pages to write, and their limit.
pub struct PageSource<'p> {
    /// The memory cache.
    pub memory: &'p Memory,
    /// The maximum size of the file, in bytes.
    pub most_bytes: u64,
    /// Selects the pages to hand over: those that are valid after all purges so far.
    pub is_valid: &'p dyn Fn(&Entry) -> bool,
}

/// Writes the pages, the most requested first. Blocks.
pub fn write_pages(source: &PageSource<'_>, now: DiskClock) -> io::Result<File> {
    let mut pages: Vec<Arc<Entry>> = source.memory.entries().collect();
    pages.sort_by_key(|page| std::cmp::Reverse(page.hits()));
    let file = memory_file::create("galley-pages")?;
    let mut writer = PageWriter::new(BufWriter::new(file), now);
    let mut bytes = 0;
    for page in pages {
        if bytes >= source.most_bytes {
            break;
        }
        if (source.is_valid)(&page) {
            let budget = source.memory.budget();
            let unpacked = page.is_packed().then(|| unpack(&page, budget));
            // A packed page is only written if there is memory for its plain body.
            let plain = unpacked.and_then(Result::ok);
            bytes += writer.write(plain.as_ref().unwrap_or(&page))?;
        }
    }
    let mut file = writer.into_inner().into_inner()?;
    memory_file::seal(&mut file)?;
    Ok(file)
}

/// Reads pages into `memory`, with the birth `born`, until it is full; returns their number. Blocks.
pub fn read_pages(file: File, memory: &Memory, born: u64, now: DiskClock) -> u64 {
    let mut reader = PageReader::new(BufReader::new(file), born, now);
    let mut pages = 0;
    while let Some(page) = reader.next(memory.budget()) {
        if memory.put(page).is_ok() {
            pages += 1;
        }
    }
    pages
}
