//! A short diff of two versions of a page, for messages.

/// The first few lines of `old` (`-`) and `new` (`+`) between their common beginning and end.
pub fn lines(old: &str, new: &str) -> String {
    let (old, new) = (split(old), split(new));
    let common_start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (
        old.get(common_start..).unwrap_or_default(),
        new.get(common_start..).unwrap_or_default(),
    );
    let common_end = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let mut out = Vec::new();
    for (sign, side) in [('-', old), ('+', new)] {
        let differing = side.get(..side.len() - common_end).unwrap_or_default();
        for line in differing.iter().take(MAX_LINES) {
            let short: String = line.trim().chars().take(MAX_LINE).collect();
            out.push(format!("{sign} {short}"));
        }
        if differing.len() > MAX_LINES {
            out.push(format!(
                "{sign} ... {} more lines",
                differing.len() - MAX_LINES
            ));
        }
    }
    out.join("\n")
}

/// Splits after line ends, tags and commas, because themes and JSON have very long lines.
fn split(text: &str) -> Vec<&str> {
    text.split_inclusive(['\n', '>', ','])
        .filter(|piece| !piece.trim().is_empty())
        .collect()
}

const MAX_LINES: usize = 6;
const MAX_LINE: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_lines_are_left_out() {
        let rows = [
            ("<a>same</a>", "<a>same</a>", ""),
            ("<a>x</a>\n<b>", "<a>y</a>\n<b>", "- x</a>\n+ y</a>"),
            ("<a></a>", "<a><i></a>", "+ <i>"),
            ("a\na\n", "a\n", "- a"),
        ];
        for (old, new, expected) in rows {
            assert_eq!(lines(old, new), expected, "{old:?} {new:?}");
        }
        let many = "x\n".repeat(9);
        assert!(lines(&many, "").ends_with("- ... 3 more lines"));
    }
}
