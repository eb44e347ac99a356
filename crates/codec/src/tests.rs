//! Encoded bodies are decoded to the same bytes, for every split of the input; damaged bodies, bombs and trailing bytes are
//! rejected.

use std::io::Write;

use bytes::Bytes;
use galley_cache::budget::MemoryBudget;
use galley_policy::compress::Compress;
use galley_policy::decoded::Applied;
use galley_policy::encoding::Coding;
use proptest::prelude::*;

use super::decode::{BodyDecoder, CodingError, DecodeStep, MAX_RATIO, PIECE};
use super::encode::{self, EncoderStream};

const CODINGS: [(Coding, Applied); 3] = [
    (Coding::Gzip, Applied::Gzip),
    (Coding::Brotli, Applied::Brotli),
    (Coding::Zstd, Applied::Zstd),
];
const ALL: [Applied; 4] = [
    Applied::Gzip,
    Applied::Deflate,
    Applied::Brotli,
    Applied::Zstd,
];
const FREE: u64 = 1024 * 1024;

fn budget() -> MemoryBudget {
    MemoryBudget::new(256 * 1024 * 1024)
}

fn settings() -> Compress {
    Compress {
        codings: Vec::new(),
        types: Vec::new(),
        min_bytes: 0,
        gzip_level: 5,
        brotli_level: 4,
        zstd_level: 3,
        dense_after: 0,
    }
}

/// All decoded bytes, for input in pieces of this length.
fn decoded(applied: &[Applied], coded: &[u8], piece: usize) -> Result<Vec<u8>, CodingError> {
    let mut decoder = BodyDecoder::new(applied, &budget(), FREE).unwrap();
    let mut plain = Vec::new();
    for piece in coded.chunks(piece.max(1)) {
        decoder.push(Bytes::copy_from_slice(piece));
        loop {
            match decoder.step()? {
                DecodeStep::Piece(bytes) => {
                    assert!(!bytes.is_empty() && bytes.len() <= PIECE);
                    plain.extend_from_slice(&bytes);
                }
                DecodeStep::Working => {}
                DecodeStep::Hungry => break,
            }
        }
    }
    decoder.end().map(|()| plain)
}

fn zlib(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(5));
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn coded(body: &[u8], applied: Applied) -> Vec<u8> {
    let whole = |coding| encode::whole(body, coding, 5, &|| ()).unwrap();
    match applied {
        Applied::Gzip => whole(Coding::Gzip),
        Applied::Deflate => zlib(body),
        Applied::Brotli => whole(Coding::Brotli),
        Applied::Zstd => whole(Coding::Zstd),
    }
}

fn page() -> Vec<u8> {
    let rows = (0..3000_u32).map(|n| format!("<p>{} of {}</p>\n", n * 7919 % 1000, n % 97));
    rows.collect::<String>().into_bytes()
}

#[test]
fn both_forms_of_deflate_are_decoded() {
    let body = page();
    let mut raw = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(5));
    raw.write_all(&body).unwrap();
    let raw = raw.finish().unwrap();
    for piece in [1, 2, 3, 1000] {
        assert!(decoded(&[Applied::Deflate], &raw, piece).unwrap() == body);
        assert!(decoded(&[Applied::Deflate], &zlib(&body), piece).unwrap() == body);
    }
    assert_eq!(decoded(&[Applied::Deflate], &raw[..1], 1), Err(CodingError));
}

#[test]
fn several_members_or_frames_are_decoded_and_a_few_other_bytes_are_ignored() {
    let body = page();
    for applied in [Applied::Gzip, Applied::Zstd] {
        let one = coded(&body, applied);
        let twice = [&one[..], &one].concat();
        let both = [&body[..], &body].concat();
        for piece in [1, one.len(), 5000] {
            assert!(decoded(&[applied], &twice, piece).unwrap() == both);
        }
        assert_eq!(
            decoded(&[applied], &twice[..twice.len() - 1], 999),
            Err(CodingError)
        );
    }
    for applied in ALL {
        let with_newline = [&coded(&body, applied)[..], b"\r\n\0rest"].concat();
        assert!(
            decoded(&[applied], &with_newline, 777).unwrap() == body,
            "{applied:?}"
        );
        let with_much = [&coded(&body, applied)[..], &[b' '; 1025]].concat();
        assert_eq!(decoded(&[applied], &with_much, 777), Err(CodingError));
    }
}

#[test]
fn several_codings_are_removed_from_the_last_to_the_first() {
    let body = page();
    for first in ALL {
        for second in ALL {
            let twice = coded(&coded(&body, first), second);
            for piece in [1, 100, 100_000] {
                let plain = decoded(&[first, second], &twice, piece);
                assert!(plain.unwrap() == body, "{first:?} {second:?}");
            }
        }
    }
}

#[test]
fn no_bytes_are_an_empty_body_and_incomplete_bodies_are_rejected() {
    for applied in ALL {
        assert_eq!(decoded(&[applied], b"", 1), Ok(Vec::new()));
        let whole = coded(&page(), applied);
        for cut in [1, whole.len() / 2, whole.len() - 1] {
            assert_eq!(
                decoded(&[applied], &whole[..cut], 500),
                Err(CodingError),
                "{applied:?} {cut}"
            );
        }
    }
}

#[test]
fn damage_is_detected_in_codings_with_a_checksum() {
    let body = page();
    for applied in [Applied::Gzip, Applied::Deflate] {
        let mut whole = coded(&body, applied);
        let at = whole.len() - 3;
        whole[at] ^= 0x40;
        assert_eq!(decoded(&[applied], &whole, 5000), Err(CodingError));
    }
}

#[test]
fn a_bomb_is_stopped_at_the_size_of_a_page() {
    let zeros = vec![0; 64 * 1024 * 1024];
    for applied in ALL {
        let bomb = coded(&zeros, applied);
        let mut decoder = BodyDecoder::new(&[applied], &budget(), FREE).unwrap();
        decoder.push(bomb.clone().into());
        let mut made = 0;
        let end = loop {
            match decoder.step() {
                Ok(DecodeStep::Piece(piece)) => made += piece.len() as u64,
                Ok(DecodeStep::Working) => {}
                Ok(DecodeStep::Hungry) => break Ok(()),
                Err(broken) => break Err(broken),
            }
        };
        assert_eq!(end, Err(CodingError), "{applied:?}");
        let most = FREE.max(bomb.len() as u64 * (MAX_RATIO + 1)) + PIECE as u64;
        assert!(made <= most, "{applied:?}: {made} of {}", bomb.len());
        // A bomb in another coding is detected as well.
        let nested = coded(&bomb, Applied::Gzip);
        assert_eq!(
            decoded(&[applied, Applied::Gzip], &nested, 999_999),
            Err(CodingError)
        );
    }
    // Bodies that are no more repetitive than pages may be large.
    let large = page().repeat(60);
    assert!(large.len() as u64 > 2 * FREE);
    for (coding, applied) in CODINGS {
        let mut stream = EncoderStream::new(coding, &settings(), &budget()).unwrap();
        let mut sent = stream.push(&large, &|| ()).unwrap().to_vec();
        sent.extend_from_slice(&stream.finish().unwrap());
        let ratio = large.len() / sent.len();
        let plain = decoded(&[applied], &sent, 4000);
        assert_eq!(
            plain.is_ok(),
            ratio as u64 <= MAX_RATIO,
            "{coding:?} {ratio}"
        );
    }
}

#[test]
fn memory_is_reserved_as_long_as_it_is_used() {
    let budget = budget();
    for (coding, applied) in CODINGS {
        let stream = EncoderStream::new(coding, &settings(), &budget).unwrap();
        assert!(budget.used() >= 512 * 1024);
        drop(stream);
        assert_eq!(budget.used(), 0);
        let mut decoder = BodyDecoder::new(&[applied], &budget, FREE).unwrap();
        let before = budget.used();
        assert!(before > 0);
        decoder.push(coded(&page(), applied).into());
        assert_eq!(budget.used() < before, applied == Applied::Brotli);
        drop(decoder);
        assert_eq!(budget.used(), 0);
    }
    let small = MemoryBudget::new(1000);
    assert!(EncoderStream::new(Coding::Gzip, &settings(), &small).is_none());
    assert!(BodyDecoder::new(&[Applied::Gzip], &small, FREE).is_none());
}

#[test]
fn a_flush_lets_the_client_decode_everything() {
    let body = page();
    for (coding, applied) in CODINGS {
        let mut stream = EncoderStream::new(coding, &settings(), &budget()).unwrap();
        let mut decoder = BodyDecoder::new(&[applied], &budget(), FREE).unwrap();
        let mut seen = Vec::new();
        for piece in body.chunks(7000) {
            let some = stream.push(piece, &|| ()).unwrap();
            assert!(stream.is_dirty());
            let rest = stream.flush().unwrap();
            assert!(!stream.is_dirty() && stream.flush().unwrap().is_empty());
            for sent in [some, rest] {
                decoder.push(sent);
                while let DecodeStep::Piece(plain) = decoder.step().unwrap() {
                    seen.extend_from_slice(&plain);
                }
            }
            assert!(body.starts_with(&seen) && seen.len() % 7000 == piece.len() % 7000);
        }
        assert_eq!(decoder.end(), Err(CodingError), "it has not ended");
        decoder.push(stream.finish().unwrap());
        assert_eq!(decoder.step(), Ok(DecodeStep::Hungry));
        assert_eq!(decoder.end(), Ok(()));
        assert!(seen == body);
    }
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..most),
        proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b')], 0..most * 4),
    ]
}

proptest! {
    #[test]
    fn encoded_bodies_decode_unchanged(body in bytes(5000), cut in 1_usize..3000, piece in 1_usize..3000, flush in any::<bool>()) {
        for (coding, applied) in CODINGS {
            let mut stream = EncoderStream::new(coding, &settings(), &budget()).unwrap();
            let mut sent = Vec::new();
            for part in body.chunks(cut) {
                sent.extend_from_slice(&stream.push(part, &|| ()).unwrap());
                if flush {
                    sent.extend_from_slice(&stream.flush().unwrap());
                }
            }
            sent.extend_from_slice(&stream.finish().unwrap());
            prop_assert_eq!(&decoded(&[applied], &sent, piece).unwrap(), &body);
            let whole = encode::whole(&body, coding, 5, &|| ()).unwrap();
            prop_assert_eq!(&decoded(&[applied], &whole, piece).unwrap(), &body);
        }
    }

    #[test]
    fn arbitrary_bytes_are_decoded_without_panic(bytes in bytes(600), piece in 1_usize..100) {
        for applied in ALL {
            let _ = decoded(&[applied], &bytes, piece);
            let _ = decoded(&[applied, Applied::Gzip], &bytes, piece);
        }
    }

    #[test]
    fn a_damaged_body_stays_within_the_ratio(at in any::<proptest::sample::Index>(), bit in 0_u8..8, piece in 1_usize..4000) {
        for applied in ALL {
            let mut whole = coded(&page()[..9000], applied);
            let at = at.index(whole.len());
            whole[at] ^= 1 << bit;
            if let Ok(plain) = decoded(&[applied], &whole, piece) {
                prop_assert!(plain.len() as u64 <= FREE.max(whole.len() as u64 * (MAX_RATIO + 1)) + PIECE as u64);
            }
        }
    }
}

#[test]
fn encoders_pause_after_each_piece() {
    let body = vec![b'x'; encode::PIECE * 3 + 1];
    let pauses = |work: &dyn Fn(&dyn Fn())| {
        let count = std::cell::Cell::new(0);
        work(&|| count.set(count.get() + 1));
        count.get()
    };
    for coding in [Coding::Gzip, Coding::Brotli] {
        let whole = pauses(&|pause| drop(encode::whole(&body, coding, 5, pause).unwrap()));
        assert!(whole >= 4, "{coding:?}: {whole}");
    }
    for (coding, _) in CODINGS {
        let pushed = pauses(&|pause| {
            let mut stream = EncoderStream::new(coding, &settings(), &budget()).unwrap();
            stream.push(&body, pause).unwrap();
        });
        assert_eq!(pushed, 4, "{coding:?}");
    }
}
