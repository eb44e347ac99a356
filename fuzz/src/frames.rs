//! Frames of HTTP/2 in front of its library: header blocks, and what is sorted out of them.

use galley_http::frame_interceptor::{FRAME_HEAD, FrameError, FrameInterceptor, Intercepted};
use galley_http::hpack::{self, Block, HpackDecoder};

/// Blocks are read within their limit, and what was read comes back when it is written as literals and read once more, by a
/// table that knows nothing. The first byte is the limit's, each following one the length of a block.
pub fn header_blocks(data: &[u8]) {
    let Some((&most, mut rest)) = data.split_first() else {
        return;
    };
    let most = usize::from(most) * 8;
    let mut decoder = HpackDecoder::default();
    let (mut block, mut again) = (Block::default(), Block::default());
    while let Some((&length, behind)) = rest.split_first() {
        let (encoded, behind) = behind.split_at(behind.len().min(length.into()));
        rest = behind;
        if decoder.decode(encoded, most, &mut block).is_err() {
            return;
        }
        let kept: usize = block.fields().map(|(n, v)| n.len() + v.len() + 32).sum();
        assert!(kept <= most && kept <= block.list_bytes());
        assert_eq!(kept == block.list_bytes(), block.list_bytes() <= most);
        let mut literal = Vec::new();
        for (name, value) in block.fields() {
            hpack::write_field(&mut literal, name, value);
        }
        let read = HpackDecoder::default().decode(&literal, most, &mut again);
        read.expect("what was written is read");
        assert!(block.fields().eq(again.fields()));
    }
}

/// A client's frames are sorted alike however they are cut, and what the library is given are whole frames of streams that
/// were not answered in front of it, whose heads are what the client wrote.
pub fn client_frames(data: &[u8]) {
    let whole = sorted([data]);
    let pieces = sorted(data.chunks(7));
    assert_eq!(whole.end, pieces.end);
    if whole.end.is_err() {
        return;
    }
    assert!(whole.heads == pieces.heads && whole.through == pieces.through);
    let mut rest = whole.through.as_slice();
    while let Some((head, behind)) = rest.split_first_chunk::<FRAME_HEAD>() {
        let [a, b, c, kind, _, stream @ ..] = *head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        let is_of_head = matches!(kind, 1 | 9);
        assert!(!is_of_head || !is_ours(stream) || whole.passed.contains(&stream));
        // The last one may have to be continued.
        rest = behind.get(length..).unwrap_or_default();
    }
    // Behind a second one the library's heads are the same.
    let again = sorted([whole.through.as_slice()]);
    assert_eq!(again.end, Ok(()));
    let passed: Vec<_> = (whole.heads.iter())
        .filter(|(stream, _)| whole.passed.contains(stream))
        .collect();
    assert!(again.heads.iter().eq(passed));
}

/// Fields of a head.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

struct Sorted {
    heads: Vec<(u32, Fields)>,
    passed: Vec<u32>,
    through: Vec<u8>,
    end: Result<(), FrameError>,
}

fn is_ours(stream: u32) -> bool {
    stream % 4 == 1
}

fn sorted<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Sorted {
    let mut sieve = FrameInterceptor::new(2_000);
    let mut block = Block::default();
    let mut input = Vec::new();
    let mut sorted = Sorted {
        heads: Vec::new(),
        passed: Vec::new(),
        through: Vec::new(),
        end: Ok(()),
    };
    for piece in pieces {
        input.extend_from_slice(piece);
        let mut rest = input.as_slice();
        loop {
            let opening = match sieve.next(&mut rest, &mut sorted.through, &mut block) {
                Ok(Intercepted::More) => break,
                Ok(Intercepted::Head(opening)) => opening,
                Err(broken) => {
                    sorted.end = Err(broken);
                    return sorted;
                }
            };
            if is_ours(opening.stream) && sieve.may_respond(&opening, &block) && sieve.take_window(0)
            {
                continue;
            }
            let own = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
            let fields = block.fields().map(own).collect();
            sorted.heads.push((opening.stream, fields));
            sorted.passed.push(opening.stream);
            sieve.pass(&opening, &block, &mut sorted.through);
        }
        let left = rest.len();
        input.drain(..input.len() - left);
    }
    sorted
}
