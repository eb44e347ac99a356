//! Numbers, addresses and JSON members of access lines.

use std::io::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use super::escape;

/// Writes a further member of a JSON object.
pub(super) fn text(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    match value {
        Some(value) => escape::json(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

/// Writes seconds with microseconds, because a hit takes some tens of them.
pub(super) fn seconds(out: &mut Vec<u8>, time: Duration) {
    match time.as_secs() {
        0 => out.extend_from_slice(b"0."),
        seconds => {
            number(out, seconds);
            out.push(b'.');
        }
    }
    digits::<6>(out, time.subsec_micros());
}

/// Writes the last `COUNT` digits of a number, with leading zeros.
pub(super) fn digits<const COUNT: usize>(out: &mut Vec<u8>, mut number: u32) {
    let mut text = [b'0'; COUNT];
    for digit in text.iter_mut().rev() {
        *digit += u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
    out.extend_from_slice(&text);
}

pub(super) fn number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes an address. The formatting of the standard library costs twenty times as much for these four numbers.
pub(super) fn address(out: &mut Vec<u8>, address: IpAddr) {
    let IpAddr::V4(address) = address else {
        // Writing to memory cannot fail.
        let _ = write!(out, "{address}");
        return;
    };
    // Each octet and its dot overwrite the unused bytes of the previous one.
    let (mut text, mut end) = ([0; 16], 0);
    for octet in address.octets() {
        let (digits, count) = OCTETS.get(usize::from(octet)).copied().unwrap_or_default();
        if let Some(room) = text.get_mut(end..end + digits.len()) {
            room.copy_from_slice(&digits);
        }
        end += count;
    }
    out.extend_from_slice(text.get(..end - 1).unwrap_or_default());
}

/// Each octet in decimal, followed by a dot, and the length of that text.
const OCTETS: [([u8; 4], usize); 256] = {
    let mut digits_of = [([0; 4], 0); 256];
    let mut value = 0_u8;
    loop {
        let digits = [value / 100, value / 10 % 10, value % 10];
        let [hundreds, tens, ones] = [b'0' + digits[0], b'0' + digits[1], b'0' + digits[2]];
        digits_of[value as usize] = match value {
            0..10 => ([ones, b'.', 0, 0], 2),
            10..100 => ([tens, ones, b'.', 0], 3),
            100.. => ([hundreds, tens, ones, b'.'], 4),
        };
        if value == u8::MAX {
            break digits_of;
        }
        value += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_by_the_library() {
        for octet in 0..=255 {
            let mut out = Vec::new();
            let shown = std::net::Ipv4Addr::new(octet, 255 - octet, 7, octet / 2);
            address(&mut out, shown.into());
            assert_eq!(out, shown.to_string().as_bytes());
        }
    }
}
