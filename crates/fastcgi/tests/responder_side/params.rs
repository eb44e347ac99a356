//! The PARAMS stream as a responder reads it.

/// Decodes the joined content of a PARAMS stream. `None` if it is incomplete or a length exceeds
/// the rest.
pub fn read(mut stream: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut pairs = Vec::new();
    while !stream.is_empty() {
        let name_length = read_length(&mut stream)?;
        let value_length = read_length(&mut stream)?;
        let (name, rest) = stream.split_at_checked(name_length)?;
        let (value, rest) = rest.split_at_checked(value_length)?;
        pairs.push((name.to_vec(), value.to_vec()));
        stream = rest;
    }
    Some(pairs)
}

fn read_length(stream: &mut &[u8]) -> Option<usize> {
    let (&first, rest) = stream.split_first()?;
    if usize::from(first) < LONG {
        *stream = rest;
        return Some(usize::from(first));
    }
    let (four, rest) = stream.split_first_chunk::<4>()?;
    *stream = rest;
    usize::try_from(u32::from_be_bytes(*four) & !LONG_FLAG).ok()
}

/// The first length that needs four bytes.
const LONG: usize = 128;
const LONG_FLAG: u32 = 1 << 31;
