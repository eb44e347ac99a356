//! Lists of words.

/// Words with white space between them.
pub(crate) struct WordList(pub &'static str);

impl WordList {
    pub fn iter(&self) -> impl Iterator<Item = &'static str> {
        self.0.split_whitespace()
    }

    pub fn contains(&self, word: &str) -> bool {
        self.iter().any(|one| one == word)
    }
}
