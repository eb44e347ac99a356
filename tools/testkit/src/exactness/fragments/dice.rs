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

    /// The edit number `number`. `posts`: the numbers of those that there are; one that is deleted is taken out, the last is not.
    pub(super) fn edit(&mut self, number: usize, posts: &mut Vec<usize>) -> RandomEdit {
        let place = self.below(posts.len());
        let post = posts.get(place).copied().unwrap_or_default();
        let category = self.below(8);
        let tag = self.below(12);
        let to_post = format!("posts/[[post.{post}]]");
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
            4 => (to_post, format!(r#"{{"title":"Title {number}"}}"#)),
            5 => (to_post, format!(r#"{{"content":"Text {number}."}}"#)),
            6 => (
                format!("categories/[[category.{category}]]"),
                format!(r#"{{"name":"Category {number}"}}"#),
            ),
            7 => (
                format!("tags/[[post_tag.{tag}]]"),
                format!(r#"{{"name":"Tag {number}"}}"#),
            ),
            9 if posts.len() > 1 => {
                posts.swap_remove(place);
                return RandomEdit {
                    method: "DELETE",
                    path: to_post,
                    body: String::new(),
                };
            }
            _ => (
                to_post,
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
    fn no_edit_is_about_a_deleted_post() {
        let mut dice = Dice::new(1);
        let mut posts: Vec<usize> = (0..40).collect();
        let mut deleted: Vec<String> = Vec::new();
        for number in 0..2000 {
            let edit = dice.edit(number, &mut posts);
            let post = |text: &str| {
                let name = text.split("[[post.").nth(1)?;
                Some(name.split("]]").next()?.to_owned())
            };
            let about = post(&edit.path).or_else(|| post(&edit.body));
            assert!(about.is_none_or(|about| !deleted.contains(&about)));
            if edit.method == "DELETE" {
                deleted.extend(post(&edit.path));
            }
        }
        assert_eq!((deleted.len(), posts.len()), (39, 1));
    }

    #[test]
    fn the_same_seed_makes_the_same_edits() {
        let edits = |seed| {
            let (mut dice, mut posts) = (Dice::new(seed), (0..9).collect());
            let edits = (0..50).map(|number| dice.edit(number, &mut posts));
            let edits = edits.map(|edit| format!("{} {} {}", edit.method, edit.path, edit.body));
            edits.collect::<Vec<_>>()
        };
        assert_eq!(edits(3), edits(3));
        assert_ne!(edits(3), edits(4));
    }
}
