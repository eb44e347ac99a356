//! Encodes a whole body at once, or a stream that can be flushed.
//!
//! Streams use small windows and levels that are fast enough for a response: their state is reserved from the memory budget
//! as long as they exist. For whole bodies the required space is known before, so that the caller can reserve it.

use std::io::{self, Read, Write};

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use galley_cache::budget::{MemoryBudget, Reservation};
use galley_policy::compress::Compress;
use galley_policy::encoding::Coding;
use zstd::stream::write::Encoder as ZstdEncoder;

/// A stream being coded.
pub struct EncoderStream {
    kind: EncoderKind,
    /// Whether something was taken in since the last flush.
    is_dirty: bool,
    _room: Reservation,
}

enum EncoderKind {
    Gzip(Box<GzEncoder<Vec<u8>>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Zstd(Box<ZstdEncoder<'static, Vec<u8>>>),
}

impl EncoderStream {
    /// A stream in this coding; `None` if there is no memory for it.
    pub fn new(coding: Coding, settings: &Compress, budget: &MemoryBudget) -> Option<Self> {
        let room = match coding {
            Coding::Identity => return None,
            Coding::Gzip => GZIP_ROOM,
            Coding::Brotli => BROTLI_STREAM_ROOM,
            Coding::Zstd => ZSTD_STREAM_ROOM,
        };
        let room = budget.try_reserve(room)?;
        let out = Vec::new();
        let kind = match coding {
            Coding::Identity => return None,
            Coding::Gzip => {
                let level = Compression::new(settings.gzip_level.min(MOST_GZIP));
                EncoderKind::Gzip(Box::new(GzEncoder::new(out, level)))
            }
            Coding::Brotli => {
                let level = settings.brotli_level.min(MOST_BROTLI);
                let stream = CompressorWriter::new(out, OUT_AT_ONCE, level, BROTLI_WINDOW);
                EncoderKind::Brotli(Box::new(stream))
            }
            Coding::Zstd => {
                let level = i32::try_from(settings.zstd_level.min(MOST_ZSTD)).ok()?;
                let mut stream = ZstdEncoder::new(out, level).ok()?;
                stream.window_log(ZSTD_WINDOW).ok()?;
                EncoderKind::Zstd(Box::new(stream))
            }
        };
        Some(Self {
            kind,
            is_dirty: false,
            _room: room,
        })
    }

    /// Consumes bytes and returns the coded ones that are ready, often none. The work is in proportion to the bytes: pass no
    /// more than [`AT_ONCE`]. `pause` is called after each [`PIECE`]; br and zstd only collect until a block is full, of 64
    /// KiB and more, and then compress it at once.
    pub fn push(&mut self, bytes: &[u8], pause: &dyn Fn()) -> io::Result<Bytes> {
        self.is_dirty = true;
        for piece in bytes.chunks(PIECE) {
            self.writer().write_all(piece)?;
            pause();
        }
        Ok(self.take())
    }

    /// Whether the client does not have all pushed bytes yet.
    pub fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// The rest of the coded bytes, so that a client can decode everything that was pushed.
    pub fn flush(&mut self) -> io::Result<Bytes> {
        if self.is_dirty {
            self.is_dirty = false;
            self.writer().flush()?;
        }
        Ok(self.take())
    }

    /// The end of the coded bytes.
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

/// A whole body in `coding`; `None` if that fails, or is identity. `pause` is called after each [`PIECE`] of input; not for
/// zstd, which takes least. br only collects until it has 64 KiB or all, and then compresses it at once: its encoder has no
/// smaller blocks at the levels that are used here.
pub fn whole(body: &[u8], coding: Coding, level: u32, pause: &dyn Fn()) -> Option<Vec<u8>> {
    match coding {
        Coding::Identity => None,
        Coding::Gzip => gzip(body, level, pause),
        Coding::Brotli => brotli(body, level, pause),
        Coding::Zstd => zstd::bulk::compress(body, i32::try_from(level).ok()?).ok(),
    }
}

/// Bytes of memory that [`whole`] needs besides the body and at most as much again for its output: measured, rounded up.
pub fn working_memory(length: usize, coding: Coding, level: u32) -> u64 {
    let plain = length as u64;
    match coding {
        Coding::Identity => 0,
        Coding::Gzip => GZIP_ROOM,
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

/// A body that is read in pieces.
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

/// A window no larger than the body: it is scratch memory here and in the client. Below 17 bits the encoder takes tables of
/// 32 MiB from level 5 on.
fn window_bits(length: usize) -> u32 {
    (usize::BITS - length.leading_zeros()).clamp(17, 22)
}

/// Bytes to push at once: some 200 us of work for the slowest of the streams.
pub const AT_ONCE: usize = 16 * 1024;

/// Bytes between two pauses: some 50 us of work for gzip.
pub const PIECE: usize = 4 * 1024;

/// Levels of streams, whatever stored pages have: beyond them a page takes twice the work for one or two in a hundred.
const MOST_GZIP: u32 = 6;
const MOST_BROTLI: u32 = 4;
const MOST_ZSTD: u32 = 3;

/// Windows of streams, in bits: larger than most pages.
const BROTLI_WINDOW: u32 = 16;
const ZSTD_WINDOW: u32 = 17;

/// Bytes that br gives out at once.
const OUT_AT_ONCE: usize = 4096;

/// What the states take, as measured, with the bytes that wait to be taken.
const GZIP_ROOM: u64 = 512 * 1024;
const BROTLI_STREAM_ROOM: u64 = 3 * MIB / 2;
const ZSTD_STREAM_ROOM: u64 = 2 * MIB;

const MIB: u64 = 1024 * 1024;
