//! The HTTP/2 frame interceptor in front of the library: header blocks, and frames of intercepted streams.

use galley_http::frame_interceptor::{FRAME_HEAD, FrameError, FrameInterceptor, InterceptorOutput};
use galley_http::hpack::{self, Block, HpackDecoder};

/// Blocks are decoded within their limit. Fields written as literals are decoded unchanged with an empty dynamic table. The first byte
/// is the limit, each following one the length of a block.
pub fn header_blocks(data: &[u8]) {
    let Some((&limit, mut rest)) = data.split_first() else {
        return;
    };
    let limit = usize::from(limit) * 8;
    let mut decoder = HpackDecoder::default();
    let (mut block, mut decoded_again) = (Block::default(), Block::default());
    while let Some((&length, after)) = rest.split_first() {
        let (encoded, after) = after.split_at(after.len().min(length.into()));
        rest = after;
        if decoder.decode(encoded, limit, &mut block).is_err() {
            return;
        }
        let decoded_bytes: usize = block.fields().map(|(n, v)| n.len() + v.len() + 32).sum();
        assert!(decoded_bytes <= limit && decoded_bytes <= block.list_bytes());
        assert_eq!(
            decoded_bytes == block.list_bytes(),
            block.list_bytes() <= limit
        );
        let mut literal = Vec::new();
        for (name, value) in block.fields() {
            hpack::write_field(&mut literal, name, value);
        }
        let read = HpackDecoder::default().decode(&literal, limit, &mut decoded_again);
        read.expect("written fields can be decoded");
        assert!(block.fields().eq(decoded_again.fields()));
    }
}

/// The result does not depend on how the client's frames are split. The library receives complete frames of the streams that were not
/// intercepted, with the heads that the client sent.
pub fn client_frames(data: &[u8]) {
    let at_once = intercept([data]);
    let pieces = intercept(data.chunks(7));
    assert_eq!(at_once.end, pieces.end);
    if at_once.end.is_err() {
        return;
    }
    assert!(at_once.heads == pieces.heads && at_once.forwarded == pieces.forwarded);
    let mut rest = at_once.forwarded.as_slice();
    while let Some((head, after)) = rest.split_first_chunk::<FRAME_HEAD>() {
        let [a, b, c, kind, _, stream @ ..] = *head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        let is_of_head = matches!(kind, 1 | 9);
        assert!(!is_of_head || !is_ours(stream) || at_once.passed.contains(&stream));
        // The last frame may be incomplete.
        rest = after.get(length..).unwrap_or_default();
    }
    // A second interceptor finds the same heads.
    let second = intercept([at_once.forwarded.as_slice()]);
    assert_eq!(second.end, Ok(()));
    let passed: Vec<_> = (at_once.heads.iter())
        .filter(|(stream, _)| at_once.passed.contains(stream))
        .collect();
    assert!(second.heads.iter().eq(passed));
}

/// Fields of a head.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

struct InterceptResult {
    heads: Vec<(u32, Fields)>,
    passed: Vec<u32>,
    forwarded: Vec<u8>,
    end: Result<(), FrameError>,
}

fn is_ours(stream: u32) -> bool {
    stream % 4 == 1
}

fn intercept<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> InterceptResult {
    let mut interceptor = FrameInterceptor::new(2_000);
    let mut block = Block::default();
    let mut input = Vec::new();
    let mut result = InterceptResult {
        heads: Vec::new(),
        passed: Vec::new(),
        forwarded: Vec::new(),
        end: Ok(()),
    };
    for piece in pieces {
        input.extend_from_slice(piece);
        let mut rest = input.as_slice();
        loop {
            let opening = match interceptor.next(&mut rest, &mut result.forwarded, &mut block) {
                Ok(InterceptorOutput::More) => break,
                Ok(InterceptorOutput::Head(opening)) => opening,
                Err(error) => {
                    result.end = Err(error);
                    return result;
                }
            };
            if is_ours(opening.stream)
                && interceptor.may_respond(&opening, &block)
                && interceptor.take_window(0)
            {
                continue;
            }
            let to_owned = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
            let fields = block.fields().map(to_owned).collect();
            result.heads.push((opening.stream, fields));
            result.passed.push(opening.stream);
            interceptor.pass(&opening, &block, &mut result.forwarded);
        }
        let consumed = input.len() - rest.len();
        input.drain(..consumed);
    }
    result
}
