//! `No-Vary-Search`: the part of a query on which a response does not depend (draft-ietf-httpbis-no-vary-search).
//!
//! A response names parameters that do not matter, or the only ones that do, or states that their order does not matter. It
//! can then be used for every request whose URL is equivalent to its own. An invalid value means the default: the whole
//! query matters, which costs hits and never gives a wrong page.
//!
//! Names and values are compared as the bytes that they decode to. The draft compares text in which all malformed UTF-8
//! sequences are equal. Here two URLs that differ in such sequences are different.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::cache_control::dictionary::{self, DictionaryValue};
use crate::query::{FormDecoded, split_pair};

/// The name of the field.
pub const NO_VARY_SEARCH: HeaderName = HeaderName::from_static("no-vary-search");

/// The part of a query on which a response depends, if that is less than all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variance {
    parameters: Parameters,
    /// Whether the order of different names matters.
    on_key_order: bool,
}

/// The parameters that matter; names are decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Parameters {
    AllBut(Vec<Vec<u8>>),
    Only(Vec<Vec<u8>>),
}

impl Variance {
    /// Parses a response's field. `None`: the default, with which only equal queries are equivalent.
    pub fn of(fields: &HeaderMap) -> Option<Self> {
        let mut lines = fields
            .get_all(NO_VARY_SEARCH)
            .iter()
            .map(HeaderValue::as_bytes);
        let mut value = lines.next()?.to_vec();
        for line in lines {
            value.extend_from_slice(b", ");
            value.extend_from_slice(line);
        }
        Self::parse(&value)
    }

    /// Parses a value; accepts any bytes. `None`: the default, or invalid.
    pub fn parse(value: &[u8]) -> Option<Self> {
        if value.len() > MAX_BYTES {
            return None;
        }
        let (mut order, mut params, mut except) = (None, None, None);
        for (key, value) in dictionary::parse(value)? {
            match key.as_str() {
                "key-order" => order = Some(value),
                "params" => params = Some(value),
                "except" => except = Some(value),
                _ => {}
            }
        }
        let on_key_order = match order {
            None => true,
            Some(DictionaryValue::Flag(is_free)) => !is_free,
            Some(_) => return None,
        };
        let parameters = match (params, except) {
            (None | Some(DictionaryValue::Flag(false)), None) => Parameters::AllBut(Vec::new()),
            (Some(DictionaryValue::Flag(true)), None) => Parameters::Only(Vec::new()),
            (Some(DictionaryValue::Flag(true)), Some(DictionaryValue::Texts(names))) => {
                Parameters::Only(decoded(&names))
            }
            (Some(DictionaryValue::Texts(names)), None) => Parameters::AllBut(decoded(&names)),
            _ => return None,
        };
        let is_default = on_key_order && parameters == Parameters::AllBut(Vec::new());
        (!is_default).then_some(Self {
            parameters,
            on_key_order,
        })
    }

    /// Whether two queries of one path are equivalent; `None` is a URL without a query.
    pub fn are_equivalent(&self, one: Option<&[u8]>, other: Option<&[u8]>) -> bool {
        one == other || self.selected(one) == self.selected(other)
    }

    /// The names and values that matter, in the order in which they are compared.
    fn selected(&self, query: Option<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut selected: Vec<(Vec<u8>, Vec<u8>)> = query
            .unwrap_or_default()
            .split(|&byte| byte == b'&')
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (name, value) = split_pair(part);
                (FormDecoded(name).collect(), FormDecoded(value).collect())
            })
            .filter(|(name, _)| self.matters(name))
            .collect();
        if !self.on_key_order {
            // Stable: values of one name keep their order.
            selected.sort_by(|a, b| a.0.cmp(&b.0));
        }
        selected
    }

    fn matters(&self, name: &Vec<u8>) -> bool {
        match &self.parameters {
            Parameters::AllBut(names) => !names.contains(name),
            Parameters::Only(names) => names.contains(name),
        }
    }
}

fn decoded(names: &[String]) -> Vec<Vec<u8>> {
    names
        .iter()
        .map(|name| FormDecoded(name.as_bytes()).collect())
        .collect()
}

/// The maximum length of a value in bytes, because each parameter is compared with all names. Longer values mean the default.
const MAX_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_parsed() {
        let names = |names: &[&str]| names.iter().map(|n| n.as_bytes().to_vec()).collect();
        let variance = |parameters, on_key_order| {
            Some(Variance {
                parameters,
                on_key_order,
            })
        };
        let all = || Parameters::AllBut(Vec::new());
        let table = [
            ("key-order", variance(all(), false)),
            ("params", variance(Parameters::Only(vec![]), true)),
            ("params=?1", variance(Parameters::Only(vec![]), true)),
            (
                "params=(\"a\" \"%C3%A9+b\")",
                variance(Parameters::AllBut(names(&["a", "é b"])), true),
            ),
            (
                "params, except=(\"x\"), key-order, future=9",
                variance(Parameters::Only(names(&["x"])), false),
            ),
            ("params=?0, key-order", variance(all(), false)),
            (
                "params, except=()",
                variance(Parameters::Only(vec![]), true),
            ),
            ("", None),
            ("params=?0", None),
            ("params=()", None),
            ("key-order=?0", None),
            ("unknown", None),
            ("key-order=\"x\"", None),
            ("params=\"x\"", None),
            ("params=(a)", None),
            ("params=(\"a\" 1)", None),
            ("params=(\"a\"), except=(\"x\")", None),
            ("params=(), except=()", None),
            ("params=?0, except=(\"x\")", None),
            ("params, except=(x)", None),
            ("params, except=\"x\"", None),
            ("params, except=?1", None),
            ("except=(\"x\")", None),
            ("key-order, params=(", None),
        ];
        for (text, wanted) in table {
            assert_eq!(Variance::parse(text.as_bytes()), wanted, "{text}");
        }
        let long = format!("params=(\"{}\")", "x".repeat(MAX_BYTES));
        assert_eq!(Variance::parse(long.as_bytes()), None);
    }

    #[test]
    fn queries_are_compared_by_the_parameters_that_matter() {
        // value, one query, the other, whether they are equivalent; "-" is a URL without a query
        let table = [
            ("key-order", "a=1&b=2", "b=2&a=1", true),
            ("key-order", "a=1&a=2", "a=2&a=1", false),
            ("key-order", "a=1&b=2&a=3", "b=2&a=1&a=3", true),
            ("key-order", "a=1", "a=2", false),
            ("key-order", "-", "", true),
            ("key-order", "a&&b", "b=&a=", true),
            ("params", "a=1", "-", true),
            ("params=(\"utm\")", "utm=1&a=2", "a=2", true),
            ("params=(\"utm\")", "utm=1&a=2", "a=3", false),
            ("params=(\"utm\")", "a=1&b=2", "b=2&a=1", false),
            ("params=(\"utm\")", "u%74m=1", "-", true),
            ("params=(\"a+b\")", "a%20b=1", "a+b=2", true),
            ("params=(\"a\")", "A=1", "-", false),
            ("params, except=(\"id\")", "id=1&x=2", "y&id=1", true),
            ("params, except=(\"id\")", "id=1", "id=2", false),
            ("params, except=(\"id\")", "id=1", "id=1&id=1", false),
            ("params=(\"x\")", "a=%E0", "a=%E1", false),
        ];
        let query = |text: &'static str| (text != "-").then_some(text.as_bytes());
        for (value, one, other, wanted) in table {
            let variance = Variance::parse(value.as_bytes()).unwrap();
            let found = variance.are_equivalent(query(one), query(other));
            assert_eq!(found, wanted, "{value}: {one} {other}");
        }
    }

    #[test]
    fn several_lines_form_one_value() {
        let mut fields = HeaderMap::new();
        assert_eq!(Variance::of(&fields), None);
        for line in ["params", "except=(\"a\")"] {
            fields.append(NO_VARY_SEARCH, HeaderValue::from_static(line));
        }
        assert_eq!(
            Variance::of(&fields),
            Variance::parse(b"params, except=(\"a\")")
        );
    }

    proptest! {
        #[test]
        fn never_panics(value in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Variance::parse(&value);
        }

        #[test]
        fn it_is_an_equivalence(
            value in "(key-order|params|params=\\(\"a\"( \"b\")?\\)|params, except=\\(\"a\"\\))(, key-order)?",
            queries in proptest::array::uniform3("([ab]=[12]|[ab]|c|%61=1|&){0,3}(&[ab]=[12]){0,2}"),
        ) {
            let Some(variance) = Variance::parse(value.as_bytes()) else {
                return Ok(());
            };
            let are = |one: usize, other: usize| {
                variance.are_equivalent(Some(queries[one].as_bytes()), Some(queries[other].as_bytes()))
            };
            prop_assert!(are(0, 0));
            prop_assert_eq!(are(0, 1), are(1, 0));
            prop_assert!(!(are(0, 1) && are(1, 2)) || are(0, 2));
            // Queries that are equal by default are equivalent under every variance.
            prop_assert!(queries[0] != queries[1] || are(0, 1));
        }
    }
}
