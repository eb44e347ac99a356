//! Splits source text into tokens, without comments, literals, lifetimes and test code.

/// A token that the checks use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// An identifier or keyword.
    Name(String),
    /// `::`.
    PathSeparator,
    /// `->` or `=>`, whose `>` is not a closing bracket.
    Arrow,
    /// Any other character.
    Sign(char),
}

impl Token {
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        self.name() == Some(name)
    }

    pub(crate) fn opens(&self) -> bool {
        matches!(self, Self::Sign('(' | '[' | '{'))
    }

    pub(crate) fn closes(&self) -> bool {
        matches!(self, Self::Sign(')' | ']' | '}'))
    }
}

/// The tokens of product code in `text`: items, fields and statements under `#[cfg(test)]` are omitted.
pub(crate) fn product_tokens(text: &str) -> Vec<Token> {
    without_tests(&tokens(text))
}

fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied().unwrap_or(' ');
        at = match c {
            '/' if next == '/' => skip_while(&chars, at, |c| c != '\n'),
            '/' if next == '*' => after(&chars, at + 2, "*/"),
            '"' => after_string(&chars, at + 1),
            '\'' => after_quote(&chars, at),
            'r' | 'b' | 'c' if after_prefixed_literal(&chars, at).is_some() => {
                after_prefixed_literal(&chars, at).unwrap()
            }
            ':' if next == ':' => {
                found.push(Token::PathSeparator);
                at + 2
            }
            '-' | '=' if next == '>' => {
                found.push(Token::Arrow);
                at + 2
            }
            c if is_word(c) => {
                let end = skip_while(&chars, at, is_word);
                found.push(Token::Name(chars[at..end].iter().collect()));
                end
            }
            c => {
                if !c.is_whitespace() {
                    found.push(Token::Sign(c));
                }
                at + 1
            }
        };
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn skip_while(chars: &[char], from: usize, predicate: impl Fn(char) -> bool) -> usize {
    chars[from..]
        .iter()
        .position(|c| !predicate(*c))
        .map_or(chars.len(), |n| from + n)
}

fn after(chars: &[char], from: usize, end: &str) -> usize {
    let end: Vec<char> = end.chars().collect();
    chars[from.min(chars.len())..]
        .windows(end.len())
        .position(|window| window == end)
        .map_or(chars.len(), |n| from + n + end.len())
}

fn after_string(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while let Some(c) = chars.get(at) {
        match c {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// The position after a character literal or a lifetime.
fn after_quote(chars: &[char], at: usize) -> usize {
    if chars.get(at + 1) == Some(&'\\') {
        return after(chars, at + 3, "'");
    }
    if chars.get(at + 2) == Some(&'\'') {
        return at + 3;
    }
    skip_while(chars, at + 1, is_word)
}

/// The position after a literal with a prefix at `at`, such as `b"x"`, `r#"x"#` and `b'x'`; `None` for a word.
fn after_prefixed_literal(chars: &[char], at: usize) -> Option<usize> {
    let letters = skip_while(chars, at, |c| matches!(c, 'r' | 'b' | 'c'));
    let is_raw = chars[at..letters].contains(&'r');
    let quote = skip_while(chars, letters, |c| c == '#');
    match chars.get(quote)? {
        '"' if is_raw => {
            let end: String = std::iter::once('"')
                .chain(chars[letters..quote].iter().copied())
                .collect();
            Some(after(chars, quote + 1, &end))
        }
        '"' if quote == letters => Some(after_string(chars, quote + 1)),
        '\'' if quote == letters && !is_raw => Some(after_quote(chars, quote)),
        _ => None,
    }
}

fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mark = [
        Token::Sign('#'),
        Token::Sign('['),
        Token::Name("cfg".into()),
        Token::Sign('('),
        Token::Name("test".into()),
        Token::Sign(')'),
        Token::Sign(']'),
    ];
    let mut product = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..].starts_with(&mark) {
            at = after_item(tokens, at + mark.len());
        } else {
            product.push(tokens[at].clone());
            at += 1;
        }
    }
    product
}

/// The position after the item, field or statement at `at`.
fn after_item(tokens: &[Token], mut at: usize) -> usize {
    while tokens.get(at) == Some(&Token::Sign('#')) {
        at = closing(tokens, at + 1) + 1;
    }
    let mut first = at;
    if tokens.get(first).is_some_and(|token| token.is("pub")) {
        first += 1;
        if tokens.get(first) == Some(&Token::Sign('(')) {
            first = closing(tokens, first) + 1;
        }
    }
    let is_item = tokens
        .get(first)
        .and_then(Token::name)
        .is_some_and(|name| ITEMS.contains(&name));
    while let Some(token) = tokens.get(at) {
        match token {
            Token::Sign('{') => return closing(tokens, at) + 1,
            Token::Sign(';') => return at + 1,
            Token::Sign(',') if !is_item => return at + 1,
            token if token.opens() => at = closing(tokens, at) + 1,
            token if token.closes() => return at,
            _ => at += 1,
        }
    }
    at
}

/// The position of the bracket that closes the one at `at`.
pub(crate) fn closing(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0;
    for (position, token) in tokens.iter().enumerate().skip(at) {
        if token.opens() {
            depth += 1;
        } else if token.closes() {
            depth -= 1;
            if depth == 0 {
                return position;
            }
        }
    }
    tokens.len()
}

const ITEMS: &[&str] = &[
    "async", "const", "enum", "extern", "fn", "if", "impl", "let", "mod", "static", "struct",
    "trait", "type", "unsafe", "use",
];

#[test]
fn product_tokens_omit_comments_literals_and_tests() {
    let text = r##"
        //! crate::a
        use b::C; /* crate::d */
        fn f<'a>(x: &'a str) -> char { "crate::e"; r#"crate::"f"#; b'{'; '\''; '"' }
        #[cfg(test)]
        pub(crate) fn g<A, B>() { h() }
        struct S { #[cfg(test)] t: u8, u: u8 }
        #[cfg(test)]
        mod tests;
    "##;
    let names: Vec<String> = product_tokens(text)
        .iter()
        .filter_map(|token| token.name().map(str::to_owned))
        .collect();
    assert_eq!(
        names.join(" "),
        "use b C fn f x str char struct S u u8",
        "{names:?}"
    );
}
