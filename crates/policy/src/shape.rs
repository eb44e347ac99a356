//! Identity by declaration: fields with names and values that decide whether two settings are the same.
//!
//! A [`Shape`] contains what its owner names, and nothing else. Its hash is the same in every run and in every version of the
//! program, and does not change when a Rust type is renamed or gets another field. A field without a value is not part of it,
//! so a new field changes nothing until a configuration uses it. Never built from `Debug` text.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// Declared fields with their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    kind: &'static str,
    version: u32,
    fields: Vec<(&'static str, Vec<String>)>,
}

impl Shape {
    /// A shape without fields. Shapes of different kinds or versions are never the same.
    pub fn new(kind: &'static str, version: u32) -> Self {
        Self {
            kind,
            version,
            fields: Vec::new(),
        }
    }

    /// Adds a field; nothing if it has no values. The order of values and of fields counts.
    #[must_use]
    pub fn with<T: ToString>(
        mut self,
        field: &'static str,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        let values: Vec<String> = values.into_iter().map(|one| one.to_string()).collect();
        if !values.is_empty() {
            self.fields.push((field, values));
        }
        self
    }

    /// As [`Shape::with`], for values whose order and number do not matter.
    #[must_use]
    pub fn with_set<T: ToString>(
        self,
        field: &'static str,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        let mut values: Vec<String> = values.into_iter().map(|one| one.to_string()).collect();
        values.sort_unstable();
        values.dedup();
        self.with(field, values)
    }

    /// As [`Shape::with`], for a field that is set or not.
    #[must_use]
    pub fn with_flag(self, field: &'static str, is_set: bool) -> Self {
        self.with(field, is_set.then_some("true"))
    }

    /// The hash: SipHash-1-3 with fixed keys. Each text is preceded by its length, each list by its number of members.
    pub fn hash(&self) -> u64 {
        let mut hasher = SipHasher13::new();
        feed(&mut hasher, self.kind);
        hasher.write(&self.version.to_le_bytes());
        for (field, values) in &self.fields {
            feed(&mut hasher, field);
            feed_length(&mut hasher, values.len());
            for value in values {
                feed(&mut hasher, value);
            }
        }
        hasher.finish()
    }

    /// The fields with other values, each once.
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        let mut differing = Vec::new();
        for (field, _) in self.fields.iter().chain(&other.fields) {
            if !differing.contains(field) && !self.values(field).eq(other.values(field)) {
                differing.push(*field);
            }
        }
        differing
    }

    fn values<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Vec<String>> {
        let fields = self.fields.iter().filter(move |(field, _)| *field == name);
        fields.map(|(_, values)| values)
    }
}

fn feed(hasher: &mut SipHasher13, text: &str) {
    feed_length(hasher, text.len());
    hasher.write(text.as_bytes());
}

fn feed_length(hasher: &mut SipHasher13, length: usize) {
    hasher.write(&u64::try_from(length).unwrap_or(u64::MAX).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape::new("test", 1)
    }

    #[test]
    fn the_hash_is_the_same_in_every_run_and_version() {
        let shape = shape().with("names", ["a", "b"]).with_flag("on", true);
        assert_eq!(shape.hash(), 16_782_742_131_299_174_505);
    }

    #[test]
    fn only_declared_values_count() {
        let empty: [&str; 0] = [];
        let same = shape().with("names", empty).with_flag("on", false);
        assert_eq!((same.hash(), &same), (shape().hash(), &shape()));
        let set = |values: &[&str]| shape().with_set("names", values).hash();
        assert_eq!(set(&["b", "a", "b"]), set(&["a", "b"]));
        let all = [
            shape(),
            Shape::new("other", 1),
            Shape::new("test", 2),
            shape().with("a", ["bc"]),
            shape().with("ab", ["c"]),
            shape().with("a", ["b", "c"]),
            shape().with("a", ["c", "b"]),
            shape().with("a", ["b"]).with("c", ["c"]),
            shape().with("a", ["b"]).with("a", ["c"]),
            shape().with("a", [""]),
            shape().with_flag("a", true),
        ];
        for (index, one) in all.iter().enumerate() {
            for other in all.iter().skip(index + 1) {
                assert_ne!(one.hash(), other.hash(), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn differing_fields_are_named_once() {
        let one = shape().with("a", ["1"]).with("b", ["2"]).with("b", ["3"]);
        let other = shape().with("b", ["2"]).with("a", ["1"]).with("c", ["4"]);
        assert_eq!(one.differing(&other), ["b", "c"]);
        assert!(one.differing(&one).is_empty());
    }
}
