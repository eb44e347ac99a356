//! A parsed head with its own copy of the bytes, for a request that outlives the buffer from which it was parsed.

use crate::head::{FieldLine, Head, HeadBuffer, MAX_FIELDS, Version};

/// A copy of a [`Head`].
#[derive(Debug)]
pub struct OwnedHead {
    /// Method, target, then name and value of each field, without separators.
    bytes: Vec<u8>,
    method: usize,
    target: usize,
    version: Version,
    fields: Vec<FieldLengths>,
}

#[derive(Clone, Copy, Debug)]
struct FieldLengths {
    name: usize,
    value: usize,
}

impl OwnedHead {
    /// Copies a head. Two allocations.
    pub fn copy_of(head: &Head<'_, '_>) -> Self {
        let line = head.method.len() + head.target.len();
        let of_fields = head
            .fields
            .iter()
            .map(|field| field.name.len() + field.value.len());
        let mut bytes = Vec::with_capacity(line + of_fields.sum::<usize>());
        bytes.extend_from_slice(head.method.as_bytes());
        bytes.extend_from_slice(head.target);
        let mut fields = Vec::with_capacity(head.fields.len());
        for field in head.fields {
            bytes.extend_from_slice(field.name);
            bytes.extend_from_slice(field.value);
            fields.push(FieldLengths {
                name: field.name.len(),
                value: field.value.len(),
            });
        }
        Self {
            bytes,
            method: head.method.len(),
            target: head.target.len(),
            version: head.version,
            fields,
        }
    }

    /// The head, with its field lines in `buffer`.
    pub fn head<'b, 'r>(&'b self, buffer: &'r mut HeadBuffer<'b>) -> Head<'b, 'r> {
        let (method, rest) = self.bytes.split_at_checked(self.method).unwrap_or_default();
        let (target, mut rest) = rest.split_at_checked(self.target).unwrap_or_default();
        let slots = buffer.slots(self.fields.len());
        for (slot, lengths) in slots.iter_mut().zip(&self.fields) {
            let (name, behind) = rest.split_at_checked(lengths.name).unwrap_or_default();
            let (value, behind) = behind.split_at_checked(lengths.value).unwrap_or_default();
            *slot = FieldLine { name, value };
            rest = behind;
        }
        Head {
            // The bytes were text when they were copied.
            method: std::str::from_utf8(method).unwrap_or_default(),
            target,
            version: self.version,
            fields: slots,
        }
    }

    /// The request's method.
    pub fn method(&self) -> &str {
        let method = self.bytes.get(..self.method);
        method.map_or("", |method| std::str::from_utf8(method).unwrap_or_default())
    }

    /// The memory in use, in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.fields.capacity() * size_of::<FieldLengths>()
    }
}

impl<'b> HeadBuffer<'b> {
    /// Space for `count` field lines, at most [`MAX_FIELDS`].
    fn slots(&mut self, count: usize) -> &mut [FieldLine<'b>] {
        let all = if count <= self.usual.len() {
            self.usual.as_mut_slice()
        } else {
            self.large
                .insert(Box::new([FieldLine::NONE; MAX_FIELDS]))
                .as_mut_slice()
        };
        all.get_mut(..count).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::head::{HeadLimits, ParsedHead, parse};

    #[test]
    fn a_copy_equals_the_head() {
        for count in [0, 1, 20, 32, 33, MAX_FIELDS] {
            let mut fields = String::new();
            for at in 0..count {
                writeln!(fields, "Name-{at}: value {at}\r").unwrap();
            }
            let text = format!("GET /a?b=c HTTP/1.1\r\n{fields}\r\n");
            let mut buffer = HeadBuffer::new();
            let Ok(ParsedHead::Whole { head, .. }) =
                parse(text.as_bytes(), &HeadLimits::default(), &mut buffer)
            else {
                panic!("{text}");
            };
            let copy = OwnedHead::copy_of(&head);
            let mut buffer = HeadBuffer::new();
            let again = copy.head(&mut buffer);
            assert_eq!(
                (again.method, again.target, again.version),
                ("GET", &b"/a?b=c"[..], Version::H11)
            );
            assert_eq!(again.count(), count);
            assert!(again.fields().eq(head.fields()));
        }
    }
}
