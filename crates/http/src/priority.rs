//! The urgency of a request (RFC 9218 section 4.1), in a `priority` field or a `PRIORITY_UPDATE` frame of HTTP/3.

/// The urgency in a priority value, from 0 to 7; [`DEFAULT_URGENCY`] if it has none.
pub fn urgency(value: &[u8]) -> u8 {
    let mut members = value.split(|byte| *byte == b',');
    members
        .find_map(|member| match member.trim_ascii() {
            [b'u', b'=', digit @ b'0'..=b'7'] => Some(digit - b'0'),
            _ => None,
        })
        .unwrap_or(DEFAULT_URGENCY)
}

/// The urgency of a request that has none.
pub const DEFAULT_URGENCY: u8 = 3;
