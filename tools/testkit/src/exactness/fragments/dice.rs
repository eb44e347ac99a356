//! Random edits, the same in each run with the same seed.

/// xorshift64*.
pub(super) struct Dice(u64);

/// A request of the block editor.
pub(super) struct RandomEdit {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) body: String,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `count`, which is not 0.
    pub(super) fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let product = u128::from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)) * count as u128;
        usize::try_from(product >> 64).unwrap_or_default()
    }

    /// The edit number `number` on a site with so many posts.
    pub(super) fn edit(&mut self, number: usize, posts: usize) -> RandomEdit {
        let post = self.below(posts);
        let category = self.below(8);
        let tag = self.below(12);
        let (method, path, body) = match self.below(10) {
            0 | 1 => (
                "POST",
                "posts".to_owned(),
                format!(
                    r#"{{"title":"New post {number}","content":"Text {number}.","status":"publish","categories":[ [[category.{category}]] ]}}"#
                ),
            ),
            2 | 3 => (
                "POST",
                "comments".to_owned(),
                format!(
                    r#"{{"post":[[post.{post}]],"author_name":"Guest {number}","author_email":"g@example.org","content":"Remark {number}.","status":"approve"}}"#
                ),
            ),
            4 => (
                "POST",
                format!("posts/[[post.{post}]]"),
                format!(r#"{{"title":"Title {number}"}}"#),
            ),
            5 => (
                "POST",
                format!("posts/[[post.{post}]]"),
                format!(r#"{{"content":"Text {number}."}}"#),
            ),
            6 => (
                "POST",
                format!("categories/[[category.{category}]]"),
                format!(r#"{{"name":"Category {number}"}}"#),
            ),
            7 => (
                "POST",
                format!("tags/[[post_tag.{tag}]]"),
                format!(r#"{{"name":"Tag {number}"}}"#),
            ),
            8 => (
                "POST",
                format!("posts/[[post.{post}]]"),
                format!(r#"{{"categories":[ [[category.{category}]] ]}}"#),
            ),
            _ => ("DELETE", format!("posts/[[post.{post}]]"), String::new()),
        };
        RandomEdit { method, path, body }
    }
}
