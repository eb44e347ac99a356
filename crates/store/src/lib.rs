//! Entries in memory, fills, and purging by epochs.
