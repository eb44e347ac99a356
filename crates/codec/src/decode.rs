//! Decodes bodies that an upstream has compressed without being asked to, in limited steps.
//!
//! Every byte is untrusted. A step returns at most [`PIECE`] bytes, so a decompression bomb needs no more memory than a page and
//! yields to other work. Above the size of a page that could be stored, at most [`MAX_RATIO`] bytes are returned for each byte of
//! input. Windows are limited to the sizes that the codings permit on the web (RFC 7932 §9.1, RFC 9659 §3). A body that ends
//! early, or whose checksum is wrong, is a [`CodingError`]. A few bytes after its end are ignored, as browsers do, since some
//! plugins append them.

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use bytes::{Bytes, BytesMut};
use flate2::{Decompress, FlushDecompress, Status};
use galley_cache::budget::{MemoryBudget, Reservation};
use galley_policy::decoded::Applied;
use zstd::stream::raw::{self, DParameter, InBuffer, Operation, OutBuffer};

/// Removes the codings of one body.
pub struct BodyDecoder {
    /// The codings, the one that was applied last first.
    stages: Vec<DecoderStage>,
    /// The output buffer of one step.
    out: Vec<u8>,
    /// The number of encoded bytes that were pushed.
    taken: u64,
    /// The number of decoded bytes up to which any compression ratio is accepted.
    free: u64,
    reservation: Reservation,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeStep {
    /// Decoded bytes, never empty.
    Piece(Bytes),
    /// No output yet; call again.
    Working,
    /// More encoded bytes are needed.
    Hungry,
}

/// The body is not valid in its coding, or its compression ratio is too high.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the compressed body is damaged")]
pub struct CodingError;

impl BodyDecoder {
    /// A decoder for codings in the order in which they were applied. `free`: the number of decoded bytes up to which any
    /// compression ratio is accepted. `None` if there is no memory for the decoder.
    pub fn new(applied: &[Applied], budget: &MemoryBudget, free: u64) -> Option<Self> {
        let memory = applied.iter().map(|one| decoder_memory(*one)).sum();
        let reservation = budget.try_reserve(memory)?;
        let stages = applied.iter().rev().map(|one| DecoderStage::new(*one));
        Some(Self {
            stages: stages.collect::<Option<Vec<_>>>()?,
            out: vec![0; PIECE],
            taken: 0,
            free,
            reservation,
        })
    }

    /// Adds encoded bytes. Call it after a step returned [`DecodeStep::Hungry`].
    pub fn push(&mut self, coded: Bytes) {
        if let (Some(Format::Brotli(_)), Some(first), 0, 1) = (
            self.stages.first().map(|stage| &stage.format),
            coded.first(),
            self.taken,
            self.stages.len(),
        ) {
            self.reservation.shrink_to(brotli_memory(*first));
        }
        self.taken = self.taken.saturating_add(coded.len() as u64);
        if let Some(stage) = self.stages.first_mut() {
            stage.feed(coded);
        }
    }

    /// Decodes for a limited time.
    pub fn step(&mut self) -> Result<DecodeStep, CodingError> {
        let Some(last) = self.stages.len().checked_sub(1) else {
            return Ok(DecodeStep::Hungry);
        };
        // From the last stage back to the first that has output.
        for at in (0..=last).rev() {
            let stage = self.stages.get_mut(at).ok_or(CodingError)?;
            let produced = stage.step(&mut self.out)?;
            if produced == 0 {
                continue;
            }
            let is_bomb = stage.produced > self.free && stage.produced / MAX_RATIO > self.taken;
            if is_bomb {
                return Err(CodingError);
            }
            let piece = Bytes::copy_from_slice(self.out.get(..produced).ok_or(CodingError)?);
            let Some(next) = self.stages.get_mut(at + 1) else {
                return Ok(DecodeStep::Piece(piece));
            };
            next.feed(piece);
            return Ok(DecodeStep::Working);
        }
        Ok(DecodeStep::Hungry)
    }

    /// Whether the body may end here. No bytes at all are an empty body, because redirects are sent like this.
    pub fn end(&self) -> Result<(), CodingError> {
        let is_whole = |stage: &DecoderStage| stage.has_ended || !stage.has_begun;
        if self.stages.iter().all(is_whole) {
            Ok(())
        } else {
            Err(CodingError)
        }
    }
}

/// The decoder of one coding.
struct DecoderStage {
    format: Format,
    input: Bytes,
    produced: u64,
    /// The number of bytes after the end.
    trailing: usize,
    /// Whether the last step filled the output buffer: there may be more output without further input.
    is_full: bool,
    has_begun: bool,
    /// Whether the encoded body is complete; further bytes are ignored, unless they are another member.
    has_ended: bool,
}

enum Format {
    Gzip(Box<Decompress>),
    /// Either form of deflate, until the first two bytes show which.
    Undecided,
    Deflate(Box<Decompress>),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(Box<raw::Decoder<'static>>),
}

/// The result of one call of a decoder.
struct DecoderProgress {
    consumed: usize,
    produced: usize,
    has_ended: bool,
}

impl DecoderStage {
    fn new(applied: Applied) -> Option<Self> {
        let alloc = StandardAlloc::default;
        let format = match applied {
            Applied::Gzip => Format::Gzip(Box::new(Decompress::new_gzip(DEFLATE_WINDOW))),
            Applied::Deflate => Format::Undecided,
            Applied::Brotli => {
                // Strict: no large windows, which are not part of the coding.
                Format::Brotli(Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())))
            }
            Applied::Zstd => {
                let mut decoder = raw::Decoder::new().ok()?;
                let window = DParameter::WindowLogMax(ZSTD_WINDOW);
                decoder.set_parameter(window).ok()?;
                Format::Zstd(Box::new(decoder))
            }
        };
        Some(Self {
            format,
            input: Bytes::new(),
            produced: 0,
            trailing: 0,
            is_full: false,
            has_begun: false,
            has_ended: false,
        })
    }

    fn feed(&mut self, bytes: Bytes) {
        if self.input.is_empty() {
            self.input = bytes;
        } else {
            let mut joined = BytesMut::from(&self.input[..]);
            joined.extend_from_slice(&bytes);
            self.input = joined.freeze();
        }
    }

    /// Decodes into `out`, and returns the number of bytes; 0: no output without more input.
    fn step(&mut self, out: &mut [u8]) -> Result<usize, CodingError> {
        while !self.input.is_empty() || self.is_full {
            if self.has_ended && !self.begins_again() {
                self.trailing = self.trailing.saturating_add(self.input.len());
                self.input = Bytes::new();
                if self.trailing > MAX_TRAILING {
                    return Err(CodingError);
                }
                break;
            }
            if !self.is_decided() {
                break;
            }
            self.has_begun = true;
            let done = self.format.call(&self.input, out)?;
            let _ = self.input.split_to(done.consumed.min(self.input.len()));
            self.has_ended = done.has_ended;
            self.is_full = done.produced == out.len() && !done.has_ended;
            self.produced = self.produced.saturating_add(done.produced as u64);
            if done.produced > 0 {
                return Ok(done.produced);
            }
            if done.consumed == 0 && !done.has_ended {
                // Neither input was used nor output produced: the decoder waits for bytes that do not exist.
                return if self.input.is_empty() {
                    Ok(0)
                } else {
                    Err(CodingError)
                };
            }
        }
        Ok(0)
    }

    /// Whether another member of the same body follows (RFC 1952 §2.2, RFC 8878 §3.1). Prepares the decoder for it.
    fn begins_again(&mut self) -> bool {
        let first = self.input.first().copied();
        let again = match (&mut self.format, first) {
            (Format::Gzip(inflate), Some(0x1f)) => {
                inflate.reset(true);
                true
            }
            (Format::Zstd(_), Some(0x28 | 0x50..=0x5f)) => true,
            _ => false,
        };
        self.has_ended = !again;
        again
    }

    /// Determines the form of deflate, if it can: zlib's header is divisible by 31 (RFC 1950 §2.2).
    fn is_decided(&mut self) -> bool {
        if matches!(self.format, Format::Undecided) {
            let [first, second, ..] = self.input[..] else {
                self.has_begun = true;
                return false;
            };
            let is_zlib = first & 0x0f == 8 && u16::from_be_bytes([first, second]) % 31 == 0;
            let inflate = Decompress::new_with_window_bits(is_zlib, DEFLATE_WINDOW);
            self.format = Format::Deflate(Box::new(inflate));
        }
        true
    }
}

impl Format {
    fn call(&mut self, input: &[u8], out: &mut [u8]) -> Result<DecoderProgress, CodingError> {
        match self {
            Self::Undecided => Err(CodingError),
            Self::Gzip(inflate) | Self::Deflate(inflate) => {
                let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
                let status = inflate.decompress(input, out, FlushDecompress::None);
                let count =
                    |now: u64, before: u64| usize::try_from(now - before).map_err(|_| CodingError);
                Ok(DecoderProgress {
                    has_ended: status.map_err(|_| CodingError)? == Status::StreamEnd,
                    consumed: count(inflate.total_in(), before_in)?,
                    produced: count(inflate.total_out(), before_out)?,
                })
            }
            Self::Brotli(state) => {
                let (mut left, mut consumed) = (input.len(), 0);
                let (mut free, mut produced, mut total) = (out.len(), 0, 0);
                let result = BrotliDecompressStream(
                    &mut left,
                    &mut consumed,
                    input,
                    &mut free,
                    &mut produced,
                    out,
                    &mut total,
                    state,
                );
                match result {
                    BrotliResult::ResultFailure => Err(CodingError),
                    BrotliResult::ResultSuccess
                    | BrotliResult::NeedsMoreInput
                    | BrotliResult::NeedsMoreOutput => Ok(DecoderProgress {
                        has_ended: matches!(result, BrotliResult::ResultSuccess),
                        consumed,
                        produced,
                    }),
                }
            }
            Self::Zstd(decoder) => {
                let mut input = InBuffer::around(input);
                let mut output = OutBuffer::around(out);
                let hint = decoder
                    .run(&mut input, &mut output)
                    .map_err(|_| CodingError)?;
                Ok(DecoderProgress {
                    has_ended: hint == 0,
                    consumed: input.pos(),
                    produced: output.pos(),
                })
            }
        }
    }
}

/// The maximum memory of a decoder with its output, in bytes.
fn decoder_memory(applied: Applied) -> u64 {
    match applied {
        Applied::Gzip | Applied::Deflate => PIECE as u64 + 64 * KIB,
        Applied::Brotli => (1 << 24) + BROTLI_TABLES,
        Applied::Zstd => (1 << ZSTD_WINDOW) + ZSTD_STATE,
    }
}

/// The memory for a br body with this first byte, which determines the window (RFC 7932 §9.1).
fn brotli_memory(first: u8) -> u64 {
    let bits = match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, _, _) => 16,
        (_, 0, 0) => 17,
        (_, 0, few) => 8 + few,
        (_, many, _) => 17 + many,
    };
    (1 << bits) + BROTLI_TABLES
}

/// The maximum number of bytes that a step returns.
pub const PIECE: usize = 32 * 1024;

/// The maximum ratio of decoded to encoded bytes. Pages reach ten, logs and tables thirty; deflate has a limit of a thousand,
/// br and zstd have none.
pub const MAX_RATIO: u64 = 100;

/// The maximum number of bytes after the end: enough for a newline or a comment of a plugin. With more, the body is invalid.
const MAX_TRAILING: usize = 1024;

/// The window in bits; gzip has no other.
const DEFLATE_WINDOW: u8 = 15;

/// The maximum window in bits: RFC 9659 §3.
const ZSTD_WINDOW: u32 = 23;

const KIB: u64 = 1024;
const BROTLI_TABLES: u64 = 512 * KIB;
const ZSTD_STATE: u64 = 512 * KIB;
