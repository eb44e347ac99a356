//! Large files, compressed while they are sent.
//!
//! Small files are compressed once, in memory. A larger file is read and compressed in steps, each on a helper thread and
//! only when the client has received most of the previous step, so that it needs a few buffers whatever its size. The number
//! of concurrent steps is limited over all files and cores. While the limit is reached or memory is short, further files
//! are sent uncompressed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use galley_cache::budget::Reservation;
use galley_cache::fill::{self, FillError, FillHead, FillReader, FillSharing, FillWriter};
use galley_policy::encoding::Coding;
use http::{HeaderMap, StatusCode};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use galley_codec::compress::Compressing;
use galley_codec::encode::EncoderStream;
use galley_sys::yield_processor;

/// A file that is being compressed.
struct CodedFile {
    file: File,
    at: u64,
    length: u64,
    /// Bytes up to the end.
    stream: Option<EncoderStream>,
    buffer: Vec<u8>,
    /// Accounts for the buffer and for the bytes that the client has not received.
    _paid: Reservation,
}

/// Begins to send `length` bytes of a file under `coding`; `None`: the file should be sent uncompressed. `fields` are those of the
/// response. Must be called inside a runtime, which reads the file.
pub(super) fn begin(
    compressing: &Compressing,
    file: &File,
    length: u64,
    coding: Coding,
    fields: &HeaderMap,
) -> Option<FillReader> {
    if compressing.is_busy() {
        return None;
    }
    let budget = compressing.budget();
    let paid = budget.try_reserve((3 * STEP + WINDOW) as u64)?;
    let stream = EncoderStream::new(coding, compressing.settings(), budget)?;
    let coded = CodedFile {
        file: file.try_clone().ok()?,
        at: 0,
        length,
        stream: Some(stream),
        buffer: Vec::new(),
        _paid: paid,
    };
    let (mut writer, fill) = fill::fill(WINDOW, None);
    writer.head(FillHead {
        status: StatusCode::OK,
        fields: fields.clone(),
        share: FillSharing::Private,
        length: None,
    });
    let reader = fill.reader()?;
    Handle::try_current()
        .ok()?
        .spawn(send(coded, writer, compressing.clone()));
    Some(reader)
}

/// Runs until the end of the file, or until the last reader is dropped.
async fn send(mut coded: CodedFile, mut writer: FillWriter, compressing: Compressing) {
    while writer.below(WINDOW as u64).await.is_ok() {
        let turn = compressing.turn().await;
        let step = spawn_blocking(move || {
            let step = coded.step();
            (coded, step)
        });
        let Ok((went_on, step)) = step.await else {
            return;
        };
        drop(turn);
        coded = went_on;
        let piece = match step {
            Ok(Some(piece)) => piece,
            Ok(None) => return drop(writer.finish()),
            // The file became shorter, or the disk failed: the client must not take the part for the whole file.
            Err(_) => return writer.fail(FillError::Closed),
        };
        if writer.put(piece).is_err() {
            return;
        }
    }
}

impl CodedFile {
    /// The compressed bytes of the next step; `None` at the end. Blocks on the disk.
    fn step(&mut self) -> io::Result<Option<Bytes>> {
        let left = self.length - self.at;
        let Some(stream) = self.stream.as_mut().filter(|_| left > 0) else {
            return self.stream.take().map(EncoderStream::finish).transpose();
        };
        let count = usize::try_from(left).map_or(STEP, |left| left.min(STEP));
        self.buffer.resize(count, 0);
        self.file.read_exact_at(&mut self.buffer, self.at)?;
        self.at += count as u64;
        stream.push(&self.buffer, &yield_processor).map(Some)
    }
}

/// Bytes of the file in one step: two or three milliseconds of work for gzip.
const STEP: usize = 64 * 1024;

/// Compressed bytes that may wait for the client.
const WINDOW: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::Arc;

    use galley_cache::memory::Memory;
    use galley_policy::compress::Compress;

    use galley_codec::compress::Compressor;

    fn compressing(memory: u64) -> Compressing {
        let settings = Compress {
            codings: vec![Coding::Gzip, Coding::Brotli, Coding::Zstd],
            types: Vec::new(),
            min_bytes: 0,
            gzip_level: 5,
            brotli_level: 4,
            zstd_level: 3,
            dense_after: 0,
        };
        let memory = Arc::new(Memory::new(memory, 1 << 20));
        Compressing::new(Compressor::start(1).unwrap(), memory, settings)
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    async fn received(mut reader: FillReader) -> Result<Vec<u8>, FillError> {
        let mut all = Vec::new();
        while let Some(bytes) = reader.next().await? {
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn files_of_any_length_arrive_whole_and_give_their_memory_back() {
        let compressing = compressing(64 << 20);
        for length in [1, STEP - 1, STEP, STEP + 1, 10 * STEP] {
            let plain: Vec<u8> = (0..length).map(|at| b"galley "[at % 7]).collect();
            let file = file(&plain);
            for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
                let fields = HeaderMap::new();
                let reader = begin(&compressing, &file, length as u64, coding, &fields).unwrap();
                let coded = received(reader).await.unwrap();
                assert!(coded.len() < length / 20 + 100, "{coding:?} of {length}");
                let mut decoded = Vec::new();
                let mut coded = coded.as_slice();
                match coding {
                    Coding::Gzip => {
                        let mut gzip = flate2::read::GzDecoder::new(coded);
                        io::copy(&mut gzip, &mut decoded).unwrap();
                    }
                    Coding::Brotli => {
                        brotli::BrotliDecompress(&mut coded, &mut decoded).unwrap();
                    }
                    _ => decoded = zstd::stream::decode_all(coded).unwrap(),
                }
                assert!(decoded == plain, "{coding:?} of {length}");
            }
        }
        assert_eq!(compressing.budget().used(), 0);
    }

    #[tokio::test]
    async fn a_file_that_became_shorter_does_not_end_well() {
        let compressing = compressing(64 << 20);
        let file = file(b"short");
        let fields = HeaderMap::new();
        let reader = begin(&compressing, &file, 6, Coding::Gzip, &fields).unwrap();
        assert!(received(reader).await.is_err());
    }

    #[tokio::test]
    async fn without_memory_or_a_free_turn_it_is_sent_as_it_is() {
        let file = file(b"a file");
        let begin = |compressing: &Compressing| {
            begin(compressing, &file, 6, Coding::Gzip, &HeaderMap::new()).is_some()
        };
        assert!(!begin(&compressing(100_000)));
        let compressing = compressing(64 << 20);
        assert!(begin(&compressing));
        let mut turns = Vec::new();
        while !compressing.is_busy() {
            turns.push(compressing.turn().await);
        }
        assert!(!begin(&compressing));
        drop(turns);
        assert!(begin(&compressing));
    }
}
