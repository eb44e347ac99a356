//! HTTP/3: field sections, streams of requests, and streams with one direction.

use galley_http::h2::{self, Http2HeadBuffer};
use galley_http::h3::{
    self, H3Connection, H3Error, H3Flood, RequestOutput, RequestReader, UniOutput,
};
use galley_http::head::HeadLimits;
use galley_http::hpack::Block;

/// A section is decoded within its limit, and its fields survive being written. The first byte is the limit.
pub fn section(data: &[u8]) {
    let Some((&limit, encoded)) = data.split_first() else {
        return;
    };
    let limit = usize::from(limit) * 8;
    let mut block = Block::default();
    let result = h3::decode_section(encoded, limit, &mut block);
    let bytes: usize = block.fields().map(|(n, v)| n.len() + v.len() + 32).sum();
    assert!(bytes <= limit && block.capacity() <= 2 * limit + 4 * encoded.len() + 4096);
    if result.is_err() {
        return;
    }
    assert_eq!(bytes, block.list_bytes());
    let mut frame = Vec::new();
    let open = h3::begin_headers(&mut frame);
    for (name, value) in block.fields() {
        h3::write_field(&mut frame, name, value);
    }
    h3::end_headers(&mut frame, open);
    let (mut flood, mut again) = (H3Flood::new(0), Block::default());
    let read = RequestReader::new(4 * frame.len() + 40_000).next(
        &mut frame.as_slice(),
        &mut again,
        &mut flood,
    );
    assert_eq!(read, Ok(RequestOutput::Head));
    assert!(again.fields().eq(block.fields()));
}

/// The result does not depend on how the stream of a request is split. Its head can be judged.
pub fn request(data: &[u8]) {
    let at_once = read_request([data]);
    assert_eq!(at_once, read_request(data.chunks(1)));
    assert_eq!(at_once, read_request(data.chunks(7)));
}

/// The outputs of a request stream: heads, bytes of the body, and how it ended.
type RequestRead = (Vec<Vec<(Vec<u8>, Vec<u8>)>>, Vec<u8>, Option<H3Error>);

fn read_request<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> RequestRead {
    let mut reader = RequestReader::new(MOST);
    let (mut flood, mut block) = (H3Flood::new(0), Block::default());
    let (mut heads, mut body) = (Vec::new(), Vec::new());
    for mut piece in pieces {
        loop {
            match reader.next(&mut piece, &mut block, &mut flood) {
                Ok(RequestOutput::More) => break,
                Ok(RequestOutput::HeadTooLarge) => heads.push(Vec::new()),
                Ok(RequestOutput::Data(data)) => body.extend_from_slice(data),
                Ok(RequestOutput::Head) => {
                    let to_owned = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
                    heads.push(block.fields().map(to_owned).collect());
                    if let Ok(line) = h3::request_line(&block) {
                        let mut buffer = Http2HeadBuffer::new();
                        let fields = h2::fields_of(&block);
                        let _ = h2::head(&line, fields, &HeadLimits::default(), &mut buffer);
                    }
                    if let Some(length) = body_length(&block) {
                        reader.expect_body(length);
                    }
                }
                Err(error) => return (heads, body, Some(error)),
            }
        }
        assert!(piece.is_empty() && reader.capacity() <= 2 * MOST + 8);
    }
    (heads, body, reader.end().err())
}

fn body_length(block: &Block) -> Option<u64> {
    let length = block
        .fields()
        .find(|(name, _)| *name == b"content-length")?;
    std::str::from_utf8(length.1).ok()?.parse().ok()
}

/// The result does not depend on how a stream with one direction is split.
pub fn uni(data: &[u8]) {
    let at_once = read_uni([data]);
    assert_eq!(at_once, read_uni(data.chunks(1)));
    assert_eq!(at_once, read_uni(data.chunks(7)));
}

fn read_uni<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<UniOutput>, Result<(), H3Error>) {
    let mut connection = H3Connection::new(0);
    let mut outputs = Vec::new();
    for mut piece in pieces {
        loop {
            match connection.read_uni(2, &mut piece) {
                Ok(UniOutput::More) => break,
                Ok(output) => outputs.push(output),
                Err(error) => return (outputs, Err(error)),
            }
            if outputs.last() == Some(&UniOutput::Stop) {
                return (outputs, Ok(()));
            }
        }
        assert!(piece.is_empty());
    }
    (outputs, connection.end_uni(2))
}

/// The limit of a field section, in bytes. What is buffered of a smaller one does not count as a flood, which depends on the split.
const MOST: usize = 1_000;
