//! The trace that a request belongs to: `traceparent` of W3C Trace Context.
//!
//! ```text
//! version 2 hex | "-" | trace id 32 hex | "-" | parent id 16 hex | "-" | flags 2 hex
//! ```
//!
//! Lower-case digits only, and neither id is zero. A later version may have more behind a further `-`; version `ff` is invalid.
//! What is not exactly so is as if it were not there (section 3.2.2).

/// The trace id in a `traceparent`, in 32 hexadecimal digits; `None`: it is not valid.
pub fn trace_id(traceparent: &[u8]) -> Option<&[u8]> {
    let (known, more) = traceparent.split_at_checked(LENGTH)?;
    let mut parts = known.split(|byte| *byte == b'-');
    let mut part = |digits: usize| {
        let part = parts.next()?;
        let is_hex = part
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (part.len() == digits && is_hex).then_some(part)
    };
    let (version, trace, parent, _flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
    let is_end = match version {
        b"ff" => false,
        b"00" => more.is_empty(),
        _ => more.is_empty() || more.starts_with(b"-"),
    };
    let is_zero = |id: &[u8]| id.iter().all(|byte| *byte == b'0');
    (is_end && !is_zero(trace) && !is_zero(parent)).then_some(trace)
}

/// Version, ids and flags with what separates them.
const LENGTH: usize = 2 + 1 + 32 + 1 + 16 + 1 + 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_an_id_only_if_its_parent_is_as_the_standard_says() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        for (value, is_valid) in [
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                true,
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff",
                true,
            ),
            (
                "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                true,
            ),
            (
                "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
                true,
            ),
            (
                "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more",
                false,
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
                false,
            ),
            (
                "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                false,
            ),
            (
                "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                false,
            ),
            (
                "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                false,
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                false,
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
                false,
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
                false,
            ),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
                false,
            ),
            (
                " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                false,
            ),
            ("", false),
        ] {
            let found = trace_id(value.as_bytes());
            assert_eq!(found, is_valid.then_some(id.as_bytes()), "{value}");
        }
    }
}
