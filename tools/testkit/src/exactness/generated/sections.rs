//! The parts of a page that the readers of a plugin show: `{{r1:text:r1}}`.

use std::collections::BTreeMap;

/// A page in parts: the texts of each reader, and the rest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sections<'a> {
    readers: BTreeMap<&'a str, Vec<&'a str>>,
    rest: Vec<&'a str>,
}

impl<'a> Sections<'a> {
    pub(super) fn of(page: &'a str) -> Self {
        let mut sections = Self::default();
        let mut left = page;
        while let Some((before, after)) = left.split_once("{{") {
            sections.rest.push(before);
            left = after;
            let Some((id, text)) = after.split_once(':') else {
                continue;
            };
            if let Some((text, after)) = text.split_once(&format!(":{id}}}}}")) {
                sections.readers.entry(id).or_default().push(text);
                left = after;
            }
        }
        sections.rest.push(left);
        sections
    }

    /// Which readers show something else than in `other`.
    pub(super) fn differing_readers(&self, other: &Self) -> Vec<&'a str> {
        let all = self.readers.keys().chain(other.readers.keys());
        let mut differing: Vec<&str> = all
            .copied()
            .filter(|id| self.readers.get(id) != other.readers.get(id))
            .collect();
        differing.sort_unstable();
        differing.dedup();
        differing
    }

    pub(super) fn has_readers(&self) -> bool {
        !self.readers.is_empty()
    }

    pub(super) fn differs_elsewhere(&self, other: &Self) -> bool {
        self.rest != other.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_differing_parts_are_named() {
        let page = Sections::of("<p>{{r1:a:r1}}</p>{{r2:b: c:r2}} {{ other: x }}");
        // Page, differing readers, differs elsewhere.
        let rows = [
            (
                "<p>{{r1:a:r1}}</p>{{r2:b: c:r2}} {{ other: x }}",
                vec![],
                false,
            ),
            (
                "<p>{{r1:z:r1}}</p>{{r2:b: c:r2}} {{ other: x }}",
                vec!["r1"],
                false,
            ),
            (
                "<p>{{r1:a:r1}}</p>{{r2:b: c:r2}} {{ other: y }}",
                vec![],
                true,
            ),
            ("<p>{{r1:a:r1}}</p>{{ other: x }}", vec!["r2"], true),
        ];
        for (text, readers, elsewhere) in rows {
            let other = Sections::of(text);
            assert_eq!(page.differing_readers(&other), readers, "{text}");
            assert_eq!(page.differs_elsewhere(&other), elsewhere, "{text}");
        }
        assert!(page.has_readers() && !Sections::of("{{").has_readers());
    }
}
