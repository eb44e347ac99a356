//! Dictionaries of structured fields (RFC 9651 §4.2.2), as far as fields about caching need them.
//!
//! The whole grammar is recognized, so that a malformed field is distinguished from an unusual one. Only values that
//! caching fields can have are returned. Accepts any bytes, never panics, and takes linear time.

/// The value of a member, as far as caching fields use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DictionaryValue {
    /// A boolean, or a key alone.
    Flag(bool),
    /// An integer of at most 15 digits.
    Integer(i64),
    /// A string without its quotes; printable ASCII.
    Text(String),
    /// An inner list that consists of strings, without their parameters.
    Texts(Vec<String>),
    /// Any other type: decimal, token, bytes, date, display string, or a list with any other values.
    Other,
}

/// The members in order, each key once with its last value. `None`: not a dictionary. An empty field: no members.
pub(crate) fn parse(text: &[u8]) -> Option<Vec<(String, DictionaryValue)>> {
    let mut input = Input {
        rest: text.trim_ascii(),
    };
    let mut members: Vec<(String, DictionaryValue)> = Vec::new();
    while !input.rest.is_empty() {
        let key = input.key()?;
        let value = if input.accept(b'=') {
            input.member_value()?
        } else {
            DictionaryValue::Flag(true)
        };
        input.parameters()?;
        members.retain(|(name, _)| *name != key);
        if members.len() == MAX_MEMBERS {
            return None;
        }
        members.push((key, value));
        input.skip_blanks();
        if input.rest.is_empty() {
            break;
        }
        if !input.accept(b',') {
            return None;
        }
        input.skip_blanks();
        if input.rest.is_empty() {
            return None;
        }
    }
    Some(members)
}

struct Input<'a> {
    rest: &'a [u8],
}

impl Input<'_> {
    fn accept(&mut self, wanted: u8) -> bool {
        match self.rest {
            [first, after @ ..] if *first == wanted => {
                self.rest = after;
                true
            }
            _ => false,
        }
    }

    fn next(&mut self) -> Option<u8> {
        let (first, after) = self.rest.split_first()?;
        self.rest = after;
        Some(*first)
    }

    fn skip_blanks(&mut self) {
        self.take_while(|byte| matches!(byte, b' ' | b'\t'));
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &[u8] {
        let end = self
            .rest
            .iter()
            .position(|&byte| !wanted(byte))
            .unwrap_or(self.rest.len());
        let (taken, after) = self.rest.split_at(end);
        self.rest = after;
        taken
    }

    fn key(&mut self) -> Option<String> {
        if !self
            .rest
            .first()
            .is_some_and(|first| first.is_ascii_lowercase() || *first == b'*')
        {
            return None;
        }
        let key = self
            .take_while(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.*".contains(&b));
        std::str::from_utf8(key).ok().map(str::to_owned)
    }

    fn member_value(&mut self) -> Option<DictionaryValue> {
        if !self.accept(b'(') {
            return self.bare_item();
        }
        let mut texts = Some(Vec::new());
        loop {
            self.take_while(|byte| byte == b' ');
            if self.accept(b')') {
                return Some(texts.map_or(DictionaryValue::Other, DictionaryValue::Texts));
            }
            match (self.bare_item()?, &mut texts) {
                (DictionaryValue::Text(text), Some(texts)) => texts.push(text),
                _ => texts = None,
            }
            self.parameters()?;
            if !matches!(self.rest.first(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.accept(b';') {
            self.take_while(|byte| byte == b' ');
            self.key()?;
            if self.accept(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn bare_item(&mut self) -> Option<DictionaryValue> {
        match self.rest.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'?' => match self.rest {
                [_, digit @ (b'0' | b'1'), after @ ..] => {
                    let flag = DictionaryValue::Flag(*digit == b'1');
                    self.rest = after;
                    Some(flag)
                }
                _ => None,
            },
            b'"' => self.string().map(DictionaryValue::Text),
            b':' => self.byte_sequence(),
            b'@' => {
                self.next();
                matches!(self.number()?, DictionaryValue::Integer(_))
                    .then_some(DictionaryValue::Other)
            }
            b'%' => {
                self.next();
                self.string().map(|_| DictionaryValue::Other)
            }
            b'*' | b'A'..=b'Z' | b'a'..=b'z' => {
                self.take_while(|byte| {
                    crate::classes::is_token_byte(byte) || matches!(byte, b':' | b'/')
                });
                Some(DictionaryValue::Other)
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<DictionaryValue> {
        let negative = self.accept(b'-');
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        let whole = digits.len();
        let magnitude: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        if self.accept(b'.') {
            let decimals = self.take_while(|byte| byte.is_ascii_digit()).len();
            return (whole <= 12 && (1..=3).contains(&decimals)).then_some(DictionaryValue::Other);
        }
        (whole <= 15).then_some(DictionaryValue::Integer(if negative {
            -magnitude
        } else {
            magnitude
        }))
    }

    fn string(&mut self) -> Option<String> {
        if !self.accept(b'"') {
            return None;
        }
        let mut text = String::new();
        loop {
            match self.next()? {
                b'"' => return Some(text),
                b'\\' => match self.next()? {
                    escaped @ (b'"' | b'\\') => text.push(char::from(escaped)),
                    _ => return None,
                },
                byte @ b' '..=b'~' => text.push(char::from(byte)),
                _ => return None,
            }
        }
    }

    fn byte_sequence(&mut self) -> Option<DictionaryValue> {
        self.next();
        self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        self.accept(b':').then_some(DictionaryValue::Other)
    }
}

/// The maximum number of members: far more than there are directives. Limited because each key is compared with all before it.
const MAX_MEMBERS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_are_parsed() {
        let one = |name: &str, value| Some(vec![(name.to_owned(), value)]);
        let texts = |texts: &[&str]| {
            DictionaryValue::Texts(texts.iter().map(|text| (*text).to_owned()).collect())
        };
        let table = [
            ("", Some(vec![])),
            ("a", one("a", DictionaryValue::Flag(true))),
            ("a;p=1;q", one("a", DictionaryValue::Flag(true))),
            ("a=?1", one("a", DictionaryValue::Flag(true))),
            ("a=?0", one("a", DictionaryValue::Flag(false))),
            ("a=-15", one("a", DictionaryValue::Integer(-15))),
            ("a=1.25", one("a", DictionaryValue::Other)),
            (
                "a=\"x\\\"y, b\"",
                one("a", DictionaryValue::Text("x\"y, b".to_owned())),
            ),
            ("a=(\"x\";p  \"\")", one("a", texts(&["x", ""]))),
            ("a=()", one("a", texts(&[]))),
            ("a=tok/en:1", one("a", DictionaryValue::Other)),
            ("a=:aGk=:", one("a", DictionaryValue::Other)),
            ("a=@1659578233", one("a", DictionaryValue::Other)),
            ("a=%\"caf%c3%a9\"", one("a", DictionaryValue::Other)),
            ("a=(1  \"x\";p b)", one("a", DictionaryValue::Other)),
            ("a=(), a=2", one("a", DictionaryValue::Integer(2))),
            ("*x.y_z-1", one("*x.y_z-1", DictionaryValue::Flag(true))),
            ("a=?2", None),
            ("a=", None),
            ("A", None),
            ("1a", None),
            ("a=1.", None),
            ("a=1.2345", None),
            ("a=-", None),
            ("a=@1.5", None),
            ("a=(1", None),
            ("a=(1\"x\")", None),
            ("a=\"\\x\"", None),
            ("a=\"\x7f\"", None),
            ("a=:x", None),
            ("a,", None),
            (",a", None),
            ("a b", None),
            ("a;", None),
        ];
        for (text, wanted) in table {
            assert_eq!(parse(text.as_bytes()), wanted, "{text}");
        }
    }

    #[test]
    fn the_number_of_members_is_limited() {
        let many: Vec<String> = (0..=MAX_MEMBERS).map(|n| format!("k{n}")).collect();
        assert_eq!(parse(many.join(",").as_bytes()), None);
        assert_eq!(
            parse(many[1..].join(",").as_bytes()).map(|m| m.len()),
            Some(MAX_MEMBERS)
        );
    }
}
