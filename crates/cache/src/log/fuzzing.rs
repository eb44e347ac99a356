//! Parses arbitrary bytes as a purge log: unchanged, and as the contents of records with correct checksums.

use std::time::SystemTime;

use super::format::{Generation, HEADER_BYTES, Image, MARK_AT, RECORD_BYTES, RunStart, mark};
use super::scan::scan;

/// Panics if the parser panics, or if a log that was written completely is not read completely.
pub fn purge_log(bytes: &[u8]) {
    let _ = scan(bytes);
    let start = RunStart {
        number: 1,
        at: SystemTime::UNIX_EPOCH,
    };
    let image = Image::new(Generation::from_bytes([7; 16]), start, &[]);
    let written = scan(&image.bytes).expect("what was written is read");
    assert_eq!(written.end, image.bytes.len());
    let header = image.header();
    let mut chain = image.chain;
    let mut file = image.bytes;
    for piece in bytes.chunks(120) {
        let mut record = piece.to_vec();
        record.resize(record.len().max(RECORD_BYTES), 0);
        let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
        record[..4].copy_from_slice(&length.to_le_bytes());
        chain.seal(&mut record);
        file.extend_from_slice(&record);
    }
    let end = mark(&header, file.len() as u64);
    file[MARK_AT..HEADER_BYTES].copy_from_slice(&end);
    let _ = scan(&file);
}
