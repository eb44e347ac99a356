//! Name-value pairs of the PARAMS stream (specification section 3.4).
//!
//! Each pair is name length, value length, name, value. A length below 128 is one byte; a longer one is four bytes
//! big-endian with the highest bit set, so at most 2^31 - 1. The pairs form one stream: a pair may span records. The caller
//! decides which variables are sent, and ensures that clients cannot define them.

use bytes::BufMut;

use crate::Error;
use crate::record::{self, RecordType};

/// The maximum encoded size of all pairs of a request, in bytes. Request heads have a much lower limit; this one bounds the
/// output buffer, which is filled before the first write.
pub const MAX_BYTES: usize = 1024 * 1024;

/// Appends the whole PARAMS stream with its final empty record. `out` is not changed on [`Error::Variables`].
pub fn write(
    out: &mut impl BufMut,
    variables: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
) -> Result<(), Error> {
    let pairs = || {
        variables
            .iter()
            .map(|(name, value)| (name.as_ref(), value.as_ref()))
    };
    let bytes = pairs().fold(0_usize, |sum, (name, value)| {
        sum.saturating_add(encoded_length(name, value))
    });
    if bytes > MAX_BYTES {
        return Err(Error::Variables { bytes });
    }
    let mut all = Vec::with_capacity(bytes);
    for (name, value) in pairs() {
        write_length(&mut all, name.len());
        write_length(&mut all, value.len());
        all.put_slice(name);
        all.put_slice(value);
    }
    record::write_stream(out, RecordType::Params, &all);
    record::write_stream_end(out, RecordType::Params);
    Ok(())
}

fn encoded_length(name: &[u8], value: &[u8]) -> usize {
    let prefix = |length: usize| if length < LONG { 1 } else { 4 };
    prefix(name.len()) + prefix(value.len()) + name.len() + value.len()
}

/// Appends a length, which is below [`MAX_BYTES`] and hence below 2^31.
fn write_length(out: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if length < LONG => out.push(short),
        _ => out.put_u32(u32::try_from(length).unwrap_or(u32::MAX) | LONG_FLAG),
    }
}

/// The first length that needs four bytes.
const LONG: usize = 128;
const LONG_FLAG: u32 = 1 << 31;
