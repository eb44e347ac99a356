//! The metrics about bodies outside of stored pages: spooled for slow clients, small files in memory, and bodies that are being
//! compressed.

use super::text::Text;
use super::{AdminState, families};

/// Writes the metrics.
pub(super) fn metrics(state: &AdminState, text: &mut Text) {
    spools(state, text);
    small_files(state, text);
    compression(state, text);
}

fn spools(state: &AdminState, text: &mut Text) {
    let spooled = state.services.spools.counted();
    text.value(families::SPOOL_MEMORY, spooled.memory);
    text.value(families::SPOOL_MEMORY_LIMIT, spooled.memory_limit);
    text.value(families::SPOOL_DISK, spooled.disk);
    text.value(families::SPOOL_DISK_LIMIT, spooled.disk_limit);
    text.value(families::SPOOL_REQUESTS, spooled.requests);
    text.value(families::SPOOL_RESPONSES, spooled.responses);
    text.value(families::SPOOL_REJECTED, spooled.refused);
    text.value(families::SPOOL_BLOCKED, spooled.held_up);
}

fn small_files(state: &AdminState, text: &mut Text) {
    let Some(files) = &state.services.small_files else {
        return;
    };
    let files = files.counted();
    text.value(families::SMALL_FILES_ENTRIES, files.usage.entries);
    text.value(families::SMALL_FILES_BYTES, files.usage.bytes);
    text.value(families::SMALL_FILES_EVICTIONS, files.usage.evictions);
    text.value(families::SMALL_FILES_CHECKS, files.looks);
    text.value(families::SMALL_FILES_READS, files.reads);
}

fn compression(state: &AdminState, text: &mut Text) {
    let counted = state.services.compressor.counted();
    text.value(families::COMPRESSION_PAGES, counted.pages);
    text.value(families::COMPRESSION_IN, counted.bytes);
    text.value(families::COMPRESSION_OUT, counted.made);
    text.value(families::COMPRESSION_POSTPONED, counted.put_off);
}
