//! Writes fields as literals without indexing (RFC 7541 section 6.2.2).

use http::StatusCode;

/// Appends `:status`.
pub fn write_status(out: &mut Vec<u8>, status: StatusCode) {
    // Indices of the static table.
    let index = match status.as_u16() {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => return write_field(out, b":status", status.as_str().as_bytes()),
    };
    out.push(0x80 | index);
}

/// Appends a field. The name must be in lower case.
pub fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    match index_of(name) {
        0 => {
            out.push(0);
            write_string(out, name);
        }
        index => write_integer(out, 0, 4, usize::from(index)),
    }
    write_string(out, value);
}

/// Appends fields from lines of `name: value` and CRLF.
pub fn write_lines(out: &mut Vec<u8>, lines: &[u8]) {
    for (name, value) in lines_of(lines) {
        write_field(out, name, value);
    }
}

/// The names and values in lines of `name: value` and CRLF.
pub(crate) fn lines_of(mut rest: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        loop {
            let end = memchr::memchr(b'\n', rest)?;
            let (line, behind) = rest.split_at(end + 1);
            rest = behind;
            let line = line.strip_suffix(b"\r\n").unwrap_or(line);
            if let Some(colon) = memchr::memchr(b':', line) {
                let (name, value) = line.split_at(colon);
                return Some((name, value.strip_prefix(b": ").unwrap_or_default()));
            }
        }
    })
}

fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    write_integer(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

/// Appends an integer (RFC 7541 section 5.1) in the last `bits` bits of a byte, with `flags` in the bits before them.
pub(crate) fn write_integer(out: &mut Vec<u8>, flags: u8, bits: u32, number: usize) {
    let mask = (1_usize << bits) - 1;
    let first = number.min(mask);
    out.push(flags | u8::try_from(first).unwrap_or(u8::MAX));
    if number < mask {
        return;
    }
    let mut rest = number - mask;
    while rest >= 0x80 {
        out.push(u8::try_from(rest & 0x7f).unwrap_or(0) | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap_or(0));
}

/// The index of a name in the static table; 0 if it has none. Only for names of response fields and pseudo-header fields.
fn index_of(name: &[u8]) -> u8 {
    match name {
        b":authority" => 1,
        b":method" => 2,
        b":path" => 4,
        b":scheme" => 6,
        b":status" => 8,
        b"accept-ranges" => 18,
        b"age" => 21,
        b"cache-control" => 24,
        b"content-encoding" => 26,
        b"content-language" => 27,
        b"content-length" => 28,
        b"content-type" => 31,
        b"cookie" => 32,
        b"date" => 33,
        b"etag" => 34,
        b"expires" => 36,
        b"last-modified" => 44,
        b"link" => 45,
        b"location" => 46,
        b"server" => 54,
        b"set-cookie" => 55,
        b"strict-transport-security" => 56,
        b"vary" => 59,
        b"via" => 60,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::STATIC;
    use super::*;

    #[test]
    fn names_have_their_index() {
        let mut known = 0;
        for (name, _) in STATIC {
            let index = index_of(name.as_bytes());
            if index > 0 {
                let first = STATIC.iter().position(|(other, _)| *other == name).unwrap();
                assert_eq!(usize::from(index), first + 1, "{name}");
                known += 1;
            }
        }
        // The table contains `:method`, `:path` and `:scheme` twice, `:status` seven times.
        assert_eq!(known, 24 + 3 + 6);
    }
}
