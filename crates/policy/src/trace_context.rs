//! The trace context of a request: `traceparent` of W3C Trace Context.
//!
//! ```text
//! version 2 hex | "-" | trace id 32 hex | "-" | parent id 16 hex | "-" | flags 2 hex
//! ```
//!
//! Digits are lower-case, and neither id is zero. A later version may have more text after a further `-`; version `ff` is
//! invalid. An invalid field is ignored (section 3.2.2), and so are repeated ones.

/// The parent span of a request, and whether its trace is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The id of the trace; not zero.
    pub trace_id: [u8; 16],
    /// The id of the span to which the request belongs; not zero.
    pub parent_id: [u8; 8],
    /// The flag `sampled`: the parent may have recorded the trace.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Parses a `traceparent`; `None` if it is invalid.
    pub fn parse(traceparent: &[u8]) -> Option<Self> {
        let parts = TextParts::of(traceparent)?;
        let [flags] = bytes(parts.flags)?;
        Some(Self {
            trace_id: bytes(parts.trace)?,
            parent_id: bytes(parts.parent)?,
            is_sampled: flags & SAMPLED != 0,
        })
    }

    /// The parent in a head; `None` if the field is absent, invalid or repeated.
    pub fn of_fields<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Option<Self> {
        let mut values = fields.filter(|(name, _)| name.eq_ignore_ascii_case("traceparent"));
        match (values.next(), values.next()) {
            (Some((_, value)), None) => Self::parse(value),
            _ => None,
        }
    }

    /// The value of the field, in version 00.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(LENGTH);
        text.push_str("00-");
        push_hex(&self.trace_id, &mut text);
        text.push('-');
        push_hex(&self.parent_id, &mut text);
        text.push_str(if self.is_sampled { "-01" } else { "-00" });
        text
    }
}

/// The trace id in a `traceparent`, as 32 hexadecimal digits; `None` if the value is invalid.
pub fn trace_id(traceparent: &[u8]) -> Option<&[u8]> {
    TextParts::of(traceparent).map(|parts| parts.trace)
}

/// Whether a trace is among the `percent` of a hundred that are recorded. Depends on the last 56 bits of the id, as in the
/// samplers of OpenTelemetry, so that all samplers with the same percentage select the same traces.
pub fn is_sampled(trace_id: &[u8; 16], percent: u8) -> bool {
    let random = u128::from_be_bytes(*trace_id) % RANDOM;
    let rejected = 100_u128.saturating_sub(percent.into());
    random >= RANDOM / 100 * rejected && percent > 0
}

/// Writes bytes as hexadecimal digits.
pub fn push_hex(bytes: &[u8], text: &mut String) {
    text.extend(
        bytes
            .iter()
            .flat_map(|byte| hex_digits(*byte))
            .map(char::from),
    );
}

/// A byte as two hexadecimal digits.
pub fn hex_digits(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 15].map(|nibble| match nibble {
        0..10 => b'0' + nibble,
        _ => b'a' + nibble - 10,
    })
}

struct TextParts<'a> {
    trace: &'a [u8],
    parent: &'a [u8],
    flags: &'a [u8],
}

impl<'a> TextParts<'a> {
    fn of(traceparent: &'a [u8]) -> Option<Self> {
        let (known, more) = traceparent.split_at_checked(LENGTH)?;
        let mut parts = known.split(|byte| *byte == b'-');
        let mut part = |digits: usize| {
            let part = parts.next()?;
            let is_hex = part
                .iter()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            (part.len() == digits && is_hex).then_some(part)
        };
        let (version, trace, parent, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let is_end = match version {
            b"ff" => false,
            b"00" => more.is_empty(),
            _ => more.is_empty() || more.starts_with(b"-"),
        };
        let is_zero = |id: &[u8]| id.iter().all(|byte| *byte == b'0');
        let parts = Self {
            trace,
            parent,
            flags,
        };
        (is_end && !is_zero(trace) && !is_zero(parent)).then_some(parts)
    }
}

/// Decodes hexadecimal digits, two for each byte.
fn bytes<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    (digits.len() == 2 * N).then_some(bytes)
}

/// The flag `sampled`.
const SAMPLED: u8 = 1;

/// The number of values of 56 bits.
const RANDOM: u128 = 1 << 56;

/// The length of version, ids and flags with their separators.
const LENGTH: usize = 2 + 1 + 32 + 1 + 16 + 1 + 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_parents_have_a_trace_id() {
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
            let parsed = TraceParent::parse(value.as_bytes());
            assert_eq!(parsed.is_some(), is_valid, "{value}");
        }
    }

    #[test]
    fn parsed_parents_are_written_unchanged() {
        for (flags, is_sampled) in [("00", false), ("01", true)] {
            let text = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
            let parent = TraceParent::parse(text.as_bytes()).unwrap();
            assert_eq!(parent.parent_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
            assert_eq!(
                (parent.is_sampled, parent.text()),
                (is_sampled, text.clone())
            );
            let one = ("TraceParent", text.as_bytes());
            assert_eq!(TraceParent::of_fields([one].into_iter()), Some(parent));
            assert_eq!(TraceParent::of_fields([one, one].into_iter()), None);
        }
    }

    #[test]
    fn the_requested_share_of_traces_is_sampled() {
        for (percent, wanted) in [(0, 0), (1, 10), (25, 250), (100, 1000)] {
            let ids = (0..1000_u128).map(|number| {
                let bits = (number * (RANDOM / 1000) + RANDOM / 2000) | (0xab << 120);
                bits.to_be_bytes()
            });
            let taken = ids.filter(|id| is_sampled(id, percent)).count();
            assert_eq!(taken, wanted, "{percent}");
        }
    }
}
