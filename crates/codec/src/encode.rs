//! Encodes a whole body at once, or a stream that can be flushed.
//!
//! Streams use small windows and levels that are fast enough for a response. Their state is reserved in the memory budget as long
//! as they exist. For whole bodies the required memory is known in advance, so that the caller can reserve it.

use std::io::{self, Read, Write};

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use galley_cache::budget::{MemoryBudget, Reservation};
use galley_policy::compress::Compress;
use galley_policy::dictionary::{self, DictionaryHash};
use galley_policy::encoding::Coding;
use zstd::stream::write::Encoder as ZstdEncoder;
use zstd::zstd_safe::CParameter;

/// A stream that is being encoded.
pub struct EncoderStream {
    kind: EncoderKind,
    /// Whether bytes were pushed since the last flush.
    is_dirty: bool,
    _reservation: Reservation,
}

enum EncoderKind {
    Gzip(Box<GzEncoder<Vec<u8>>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Zstd(Box<ZstdEncoder<'static, Vec<u8>>>),
}

impl EncoderStream {
    /// A stream in the given coding; `None` if there is no memory for it.
    pub fn new(coding: Coding, settings: &Compress, budget: &MemoryBudget) -> Option<Self> {
        let memory = match coding {
            Coding::Identity | Coding::Dcz => return None,
            Coding::Gzip => GZIP_MEMORY,
            Coding::Brotli => BROTLI_STREAM_MEMORY,
            Coding::Zstd => ZSTD_STREAM_MEMORY,
        };
        let reservation = budget.try_reserve(memory)?;
        let out = Vec::new();
        let kind = match coding {
            Coding::Identity | Coding::Dcz => return None,
            Coding::Gzip => {
                let level = Compression::new(settings.gzip_level.min(MAX_GZIP_LEVEL));
                EncoderKind::Gzip(Box::new(GzEncoder::new(out, level)))
            }
            Coding::Brotli => {
                let level = settings.brotli_level.min(MAX_BROTLI_LEVEL);
                let stream = CompressorWriter::new(out, BROTLI_BUFFER, level, BROTLI_WINDOW);
                EncoderKind::Brotli(Box::new(stream))
            }
            Coding::Zstd => {
                let level = i32::try_from(settings.zstd_level.min(MAX_ZSTD_LEVEL)).ok()?;
                let mut stream = ZstdEncoder::new(out, level).ok()?;
                stream.window_log(ZSTD_WINDOW).ok()?;
                EncoderKind::Zstd(Box::new(stream))
            }
        };
        Some(Self {
            kind,
            is_dirty: false,
            _reservation: reservation,
        })
    }

    /// Encodes bytes and returns the encoded ones that are ready, often none. The work is proportional to the bytes: pass at most
    /// [`AT_ONCE`]. Calls `pause` after each [`PIECE`]; br and zstd only collect input until a block of 64 KiB or more is full, and
    /// then compress it at once.
    pub fn push(&mut self, bytes: &[u8], pause: &dyn Fn()) -> io::Result<Bytes> {
        self.is_dirty = true;
        for piece in bytes.chunks(PIECE) {
            self.writer().write_all(piece)?;
            pause();
        }
        Ok(self.take())
    }

    /// Whether the returned bytes do not yet contain all pushed bytes.
    pub fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// The remaining encoded bytes, so that a client can decode everything that was pushed.
    pub fn flush(&mut self) -> io::Result<Bytes> {
        if self.is_dirty {
            self.is_dirty = false;
            self.writer().flush()?;
        }
        Ok(self.take())
    }

    /// Ends the stream and returns the last encoded bytes.
    pub fn finish(self) -> io::Result<Bytes> {
        let rest = match self.kind {
            EncoderKind::Gzip(stream) => stream.finish()?,
            EncoderKind::Brotli(stream) => stream.into_inner(),
            EncoderKind::Zstd(stream) => stream.finish()?,
        };
        Ok(rest.into())
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.kind {
            EncoderKind::Gzip(stream) => stream,
            EncoderKind::Brotli(stream) => stream,
            EncoderKind::Zstd(stream) => stream,
        }
    }

    fn take(&mut self) -> Bytes {
        let out = match &mut self.kind {
            EncoderKind::Gzip(stream) => stream.get_mut(),
            EncoderKind::Brotli(stream) => stream.get_mut(),
            EncoderKind::Zstd(stream) => stream.get_mut(),
        };
        std::mem::take(out).into()
    }
}

/// A whole body in `coding`; `None` if encoding fails, or the coding is identity or needs a dictionary ([`by_dictionary`]). Calls
/// `pause` after each [`PIECE`] of input, except for zstd, which takes least time. br only collects input until it has 64 KiB or all
/// of it, and then compresses it at once: its encoder has no smaller blocks at the levels that are used here.
pub fn whole(body: &[u8], coding: Coding, level: u32, pause: &dyn Fn()) -> Option<Vec<u8>> {
    match coding {
        Coding::Identity | Coding::Dcz => None,
        Coding::Gzip => gzip(body, level, pause),
        Coding::Brotli => brotli(body, level, pause),
        Coding::Zstd => zstd::bulk::compress(body, i32::try_from(level).ok()?).ok(),
    }
}

/// The memory that [`whole`] needs in addition to the body and at most as much again for its output, in bytes: measured,
/// rounded up.
pub fn working_memory(length: usize, coding: Coding, level: u32) -> u64 {
    let plain = length as u64;
    match coding {
        Coding::Identity => 0,
        Coding::Dcz => DCZ_TABLES + 2 * plain,
        Coding::Gzip => GZIP_MEMORY,
        Coding::Brotli => {
            let window = 1_u64 << window_bits(length);
            let table = match level {
                0..=4 => 0,
                5 => MIB,
                6 => 2 * MIB,
                7 => 8 * MIB,
                8 => 16 * MIB,
                9 => 32 * MIB,
                _ => 20 * window,
            };
            3 * MIB / 2 + 4 * window + table
        }
        Coding::Zstd => (24 * plain).clamp(MIB, 11 * MIB),
    }
}

/// A whole body as `dcz` (RFC 9842 section 5): the header with the hash of the dictionary, and a zstd frame that refers to it. `None` if
/// encoding fails, or a client might not be able to decode the result.
///
/// A decoder uses the dictionary as long as it has written no more than the window, so the window spans dictionary and body. A dictionary
/// that begins like one that zstd has trained would be read as such.
pub fn by_dictionary(body: &[u8], dictionary: &[u8], hash: &DictionaryHash) -> Option<Vec<u8>> {
    let window = usize::BITS - (body.len() + dictionary.len()).leading_zeros();
    if window > MAX_DCZ_WINDOW || dictionary.starts_with(&TRAINED) {
        return None;
    }
    let mut encoder = zstd::bulk::Compressor::with_dictionary(DCZ_LEVEL, dictionary).ok()?;
    let window = CParameter::WindowLog(window.max(MIN_DCZ_WINDOW));
    encoder.set_parameter(window).ok()?;
    let frame = encoder.compress(body).ok()?;
    Some([&dictionary::MAGIC[..], hash, &frame].concat())
}

fn gzip(body: &[u8], level: u32, pause: &dyn Fn()) -> Option<Vec<u8>> {
    let out = Vec::with_capacity(body.len() / 3);
    let mut encoder = GzEncoder::new(out, Compression::new(level));
    for piece in body.chunks(PIECE) {
        encoder.write_all(piece).ok()?;
        pause();
    }
    encoder.finish().ok()
}

fn brotli(body: &[u8], level: u32, pause: &dyn Fn()) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(body.len() / 3);
    let parameters = BrotliEncoderParams {
        quality: i32::try_from(level).ok()?,
        lgwin: i32::try_from(window_bits(body.len())).ok()?,
        size_hint: body.len(),
        ..Default::default()
    };
    brotli::BrotliCompress(
        &mut PiecewiseBody { rest: body, pause },
        &mut out,
        &parameters,
    )
    .ok()?;
    Some(out)
}

/// A body that the encoder reads in pieces.
struct PiecewiseBody<'a> {
    rest: &'a [u8],
    pause: &'a dyn Fn(),
}

impl Read for PiecewiseBody<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (self.pause)();
        let most = buf.len().min(PIECE);
        self.rest.read(buf.get_mut(..most).unwrap_or_default())
    }
}

/// The window in bits, no larger than the body, because it is working memory here and in the client. Below 17 bits the encoder
/// uses tables of 32 MiB from level 5 on.
fn window_bits(length: usize) -> u32 {
    (usize::BITS - length.leading_zeros()).clamp(17, 22)
}

/// The number of bytes to push at once: some 200 us of work for the slowest of the streams.
pub const AT_ONCE: usize = 16 * 1024;

/// The number of bytes between two pauses: some 50 us of work for gzip.
pub const PIECE: usize = 4 * 1024;

/// The maximum levels of streams, which are independent of the levels for stored pages: above them, one or two per cent smaller
/// pages take twice the work.
const MAX_GZIP_LEVEL: u32 = 6;
const MAX_BROTLI_LEVEL: u32 = 4;
const MAX_ZSTD_LEVEL: u32 = 3;

/// The windows of streams, in bits: larger than most pages.
const BROTLI_WINDOW: u32 = 16;
const ZSTD_WINDOW: u32 = 17;

/// The level of `dcz`.
const DCZ_LEVEL: i32 = 6;

/// The windows of `dcz`, in bits. Every client supports 8 MB (RFC 9842 section 5).
const MIN_DCZ_WINDOW: u32 = 10;
const MAX_DCZ_WINDOW: u32 = 23;

/// The beginning of a dictionary that zstd has trained (RFC 8878 section 5).
const TRAINED: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// The tables of the encoder of `dcz`, in bytes: an estimate for its level and pages up to the largest dictionary.
const DCZ_TABLES: u64 = 4 * MIB;

/// The size of br's output buffer, in bytes.
const BROTLI_BUFFER: usize = 4096;

/// The memory of the encoder states, including the output that was not taken yet, in bytes: measured.
const GZIP_MEMORY: u64 = 512 * 1024;
const BROTLI_STREAM_MEMORY: u64 = 3 * MIB / 2;
const ZSTD_STREAM_MEMORY: u64 = 2 * MIB;

const MIB: u64 = 1024 * 1024;
