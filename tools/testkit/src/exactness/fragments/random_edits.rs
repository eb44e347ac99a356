//! Random edits, reproducible by seed.

/// A generator of random edits (xorshift64*).
pub(super) struct RandomEdits(u64);

/// A REST request like those of the block editor.
pub(super) struct RandomEdit {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) body: String,
}

impl RandomEdits {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A random number below `count`, which must not be 0.
    pub(super) fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let product = u128::from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)) * count as u128;
        usize::try_from(product >> 64).unwrap_or_default()
    }

    /// Generates an edit; its texts contain `number`. Removes a post that it deletes from `posts`, and never deletes the last.
    pub(super) fn edit(&mut self, number: usize, posts: &mut Vec<usize>) -> RandomEdit {
        let index = self.below(posts.len());
        let post = posts.get(index).copied().unwrap_or_default();
        let category = self.below(8);
        let tag = self.below(12);
        let post_path = format!("posts/[[post.{post}]]");
        let (path, body) = match self.below(10) {
            0 | 1 => (
                "posts".to_owned(),
                format!(
                    r#"{{"title":"New post {number}","content":"Text {number}.","status":"publish","categories":[ [[category.{category}]] ]}}"#
                ),
            ),
            2 | 3 => (
                "comments".to_owned(),
                format!(
                    r#"{{"post":[[post.{post}]],"author_name":"Guest {number}","author_email":"g@example.org","content":"Remark {number}.","status":"approve"}}"#
                ),
            ),
            4 => (post_path, format!(r#"{{"title":"Title {number}"}}"#)),
            5 => (post_path, format!(r#"{{"content":"Text {number}."}}"#)),
            6 => (
                format!("categories/[[category.{category}]]"),
                format!(r#"{{"name":"Category {number}"}}"#),
            ),
            7 => (
                format!("tags/[[post_tag.{tag}]]"),
                format!(r#"{{"name":"Tag {number}"}}"#),
            ),
            9 if posts.len() > 1 => {
                posts.swap_remove(index);
                return RandomEdit {
                    method: "DELETE",
                    path: post_path,
                    body: String::new(),
                };
            }
            _ => (
                post_path,
                format!(r#"{{"categories":[ [[category.{category}]] ]}}"#),
            ),
        };
        RandomEdit {
            method: "POST",
            path,
            body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_edit_uses_a_deleted_post() {
        let mut random = RandomEdits::new(1);
        let mut posts: Vec<usize> = (0..40).collect();
        let mut deleted: Vec<String> = Vec::new();
        for number in 0..2000 {
            let edit = random.edit(number, &mut posts);
            let post_in = |text: &str| {
                let name = text.split("[[post.").nth(1)?;
                Some(name.split("]]").next()?.to_owned())
            };
            let post = post_in(&edit.path).or_else(|| post_in(&edit.body));
            assert!(post.is_none_or(|post| !deleted.contains(&post)));
            if edit.method == "DELETE" {
                deleted.extend(post_in(&edit.path));
            }
        }
        assert_eq!((deleted.len(), posts.len()), (39, 1));
    }

    #[test]
    fn the_same_seed_generates_the_same_edits() {
        let edits = |seed| {
            let (mut random, mut posts) = (RandomEdits::new(seed), (0..9).collect());
            let edits = (0..50).map(|number| random.edit(number, &mut posts));
            let edits = edits.map(|edit| format!("{} {} {}", edit.method, edit.path, edit.body));
            edits.collect::<Vec<_>>()
        };
        assert_eq!(edits(3), edits(3));
        assert_ne!(edits(3), edits(4));
    }
}
