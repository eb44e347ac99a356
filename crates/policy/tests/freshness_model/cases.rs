//! The cases: their meaning, their form as header lines, and their generation.
//!
//! Numbers are small, so that they are often equal. All malformed values that occur in practice are included.

use std::time::{Duration, SystemTime};

use galley_policy::time;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

/// A directive of `Cache-Control` as written in the field.
#[derive(Clone, Debug)]
pub struct Directive {
    pub name: &'static str,
    pub argument: Argument,
}

#[derive(Clone, Debug)]
pub enum Argument {
    None,
    Number(u64),
    Quoted(u64),
    /// An invalid number, with its `=`.
    Broken(&'static str),
    /// A quoted list, and whether it consists of field names.
    List(&'static str, bool),
}

/// A member of a targeted field.
#[derive(Clone, Debug)]
pub struct Member {
    pub key: &'static str,
    pub value: Item,
}

#[derive(Clone, Debug)]
pub enum Item {
    True,
    False,
    Integer(i64),
    Other(&'static str),
}

/// A targeted field: its members, and whether it ends with a syntax error.
#[derive(Clone, Debug)]
pub struct Targeted {
    pub members: Vec<Member>,
    pub is_malformed: bool,
}

/// A field with a date.
#[derive(Clone, Debug)]
pub enum DateField {
    Absent,
    /// Seconds from [`NOW`].
    At(i64),
    /// A date in one of the two obsolete forms of RFC 9110 section 5.6.7, and its value.
    Obsolete(&'static str, i64),
    Invalid(&'static str),
    /// Two lines with the same date.
    Twice(i64),
}

/// The lines of `Age` as text, and their first member if it is a number.
#[derive(Clone, Debug)]
pub struct AgeField {
    pub lines: Vec<&'static str>,
    pub first: Option<u64>,
}

/// Directives and credentials of the second request.
#[derive(Clone, Debug, Default)]
pub struct RequestDirectives {
    pub no_cache: bool,
    pub no_store: bool,
    pub only_if_cached: bool,
    pub max_age: Option<u64>,
    pub min_fresh: Option<u64>,
    pub max_stale: MaxStale,
    pub authorization: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub enum MaxStale {
    #[default]
    Unspecified,
    Any,
    Within(u64),
}

#[derive(Clone, Debug)]
pub struct Case {
    /// Whether the first request, which fetched the response, had credentials.
    pub first_authorized: bool,
    pub status: u16,
    pub control: Vec<Vec<Directive>>,
    pub own: Option<Targeted>,
    pub cdn: Option<Targeted>,
    pub age: AgeField,
    pub date: DateField,
    pub expires: DateField,
    pub last_modified: DateField,
    pub has_etag: bool,
    pub response_delay: u64,
    /// Seconds since the response was stored.
    pub elapsed: u64,
    /// Stale windows of the site for responses without their own: while revalidating, and on errors.
    pub site_windows: (u64, u64),
    pub second: RequestDirectives,
}

/// The time when responses arrive.
pub fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)
}

/// The fields of the response.
pub fn response(case: &Case) -> HeaderMap {
    let mut fields = HeaderMap::new();
    let mut add = |name: &'static str, value: &str| {
        let value = HeaderValue::from_str(value).unwrap();
        fields.append(HeaderName::from_static(name), value);
    };
    for line in &case.control {
        let directives: Vec<String> = line.iter().map(Directive::text).collect();
        add("cache-control", &directives.join(", "));
    }
    for (name, field) in [
        ("galley-cache-control", &case.own),
        ("cdn-cache-control", &case.cdn),
    ] {
        let Some(field) = field else { continue };
        let members: Vec<String> = field.members.iter().map(Member::text).collect();
        let end = if field.is_malformed { " ?" } else { "" };
        add(name, &format!("{}{end}", members.join(", ")));
    }
    for line in &case.age.lines {
        add("age", line);
    }
    for (name, date) in [
        ("date", &case.date),
        ("expires", &case.expires),
        ("last-modified", &case.last_modified),
    ] {
        for line in date.lines() {
            add(name, &line);
        }
    }
    if case.has_etag {
        add("etag", "\"a\"");
    }
    fields
}

impl Directive {
    fn text(&self) -> String {
        let name = self.name;
        match &self.argument {
            Argument::None => name.to_owned(),
            Argument::Number(seconds) => format!("{name}={seconds}"),
            Argument::Quoted(seconds) => format!("{name}=\"{seconds}\""),
            Argument::Broken(text) => format!("{name}{text}"),
            Argument::List(names, _) => format!("{name}=\"{names}\""),
        }
    }
}

impl Member {
    fn text(&self) -> String {
        let key = self.key;
        match &self.value {
            Item::True => key.to_owned(),
            Item::False => format!("{key}=?0"),
            Item::Integer(number) => format!("{key}={number}"),
            Item::Other(text) => format!("{key}={text}"),
        }
    }
}

impl DateField {
    fn lines(&self) -> Vec<String> {
        let date = |at: i64| {
            let moment = SystemTime::UNIX_EPOCH
                + Duration::from_secs(NOW.checked_add_signed(at).unwrap_or_default());
            let mut text = Vec::new();
            time::write_date(moment, &mut text);
            String::from_utf8(text).unwrap()
        };
        match self {
            Self::Absent => Vec::new(),
            Self::At(at) => vec![date(*at)],
            Self::Obsolete(text, _) | Self::Invalid(text) => vec![(*text).to_owned()],
            Self::Twice(at) => vec![date(*at), date(*at)],
        }
    }
}

/// The `Cache-Control` of the second request.
pub fn request_control(request: &RequestDirectives) -> String {
    let mut directives = vec!["x".to_owned()];
    for (is_present, name) in [
        (request.no_cache, "no-cache"),
        (request.no_store, "no-store"),
        (request.only_if_cached, "Only-If-Cached"),
    ] {
        directives.extend(is_present.then(|| name.to_owned()));
    }
    directives.extend(request.max_age.map(|s| format!("max-age={s}")));
    directives.extend(request.min_fresh.map(|s| format!("min-fresh=\"{s}\"")));
    match request.max_stale {
        MaxStale::Unspecified => {}
        MaxStale::Any => directives.push("max-stale".to_owned()),
        MaxStale::Within(seconds) => directives.push(format!("MAX-STALE={seconds}")),
    }
    directives.join(",")
}

fn seconds() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0_u64..12, 1 => Just(100), 1 => Just(5_000), 1 => Just(99_999_999_999)]
}

fn directive() -> impl Strategy<Value = Directive> {
    let lifetime = prop_oneof![
        6 => seconds().prop_map(Argument::Number),
        1 => seconds().prop_map(Argument::Quoted),
        1 => prop::sample::select(vec!["=-1", "=1.5", "=x", "=", " = 5", "=5s"]).prop_map(Argument::Broken),
        1 => Just(Argument::None),
    ];
    let flag = prop_oneof![
        4 => Just(Argument::None),
        1 => Just(Argument::Broken("=x")),
        3 => prop::sample::select(vec![
            ("a", true), ("set-cookie, x", true), ("", false), ("a b", false),
        ]).prop_map(|(list, is_of_names)| Argument::List(list, is_of_names)),
    ];
    prop_oneof![
        5 => (
            prop::sample::select(vec![
                "max-age", "Max-Age", "s-maxage", "stale-while-revalidate", "stale-if-error",
            ]),
            lifetime,
        ),
        3 => (
            prop::sample::select(vec![
                "no-store", "no-cache", "No-Cache", "private", "public", "must-revalidate",
                "proxy-revalidate", "must-understand", "x-other",
            ]),
            flag,
        ),
    ]
    .prop_map(|(name, argument)| Directive { name, argument })
}

fn targeted() -> impl Strategy<Value = Option<Targeted>> {
    let value = prop_oneof![
        3 => Just(Item::True),
        1 => Just(Item::False),
        5 => (-2_i64..12).prop_map(Item::Integer),
        1 => prop::sample::select(vec!["1.5", "\"5\"", "x", "(5)"]).prop_map(Item::Other),
    ];
    let keys = vec![
        "max-age",
        "s-maxage",
        "stale-while-revalidate",
        "stale-if-error",
        "no-store",
        "no-cache",
        "private",
        "public",
        "must-revalidate",
        "proxy-revalidate",
        "must-understand",
        "other",
    ];
    let member = (prop::sample::select(keys), value).prop_map(|(key, value)| Member { key, value });
    let field = (
        prop::collection::vec(member, 0..4),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(members, is_malformed)| Targeted {
            members,
            is_malformed,
        });
    prop::option::weighted(0.2, field)
}

fn age() -> impl Strategy<Value = AgeField> {
    let field = |lines: &[&'static str], first| AgeField {
        lines: lines.to_vec(),
        first,
    };
    prop_oneof![
        12 => Just(field(&[], None)),
        2 => Just(field(&["0"], Some(0))),
        2 => Just(field(&["3"], Some(3))),
        1 => Just(field(&["007"], Some(7))),
        1 => Just(field(&["99999999999"], Some(99_999_999_999))),
        1 => Just(field(&["2,9"], Some(2))),
        1 => prop::sample::select(vec!["-1", "x", "", "1.5", "\"3\"", "3;a", "x, 3"])
            .prop_map(move |text| field(&[text], None)),
        1 => Just(field(&["3", "900"], Some(3))),
        1 => Just(field(&["900", "x"], Some(900))),
        1 => Just(field(&["x", "900"], None)),
        1 => Just(field(&["4, x"], Some(4))),
    ]
}

/// Dates from `past` seconds before to `future` seconds after now.
fn date_field(past: i64, future: i64) -> impl Strategy<Value = DateField> {
    prop_oneof![
        6 => Just(DateField::Absent),
        8 => (-past..future).prop_map(DateField::At),
        1 => prop::sample::select(vec![
            ("Sunday, 06-Nov-94 08:49:37 GMT", -3),
            ("Sun Nov  6 08:49:37 1994", -3),
        ])
        .prop_map(|(text, at)| DateField::Obsolete(text, at)),
        1 => prop::sample::select(vec![
            "0", "-1", "", "soon", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:99 GMT",
            "Sun, 06 Nov 1994 08:49:37 PST",
        ])
        .prop_map(DateField::Invalid),
        1 => (-past..future).prop_map(DateField::Twice),
    ]
}

fn second() -> impl Strategy<Value = RequestDirectives> {
    let rarely = || prop::bool::weighted(0.1);
    let sometimes = || prop::option::weighted(0.2, 0_u64..15);
    let max_stale = prop_oneof![
        6 => Just(MaxStale::Unspecified),
        1 => Just(MaxStale::Any),
        2 => (0_u64..15).prop_map(MaxStale::Within),
    ];
    (
        (rarely(), rarely(), rarely(), rarely()),
        (sometimes(), sometimes()),
        max_stale,
    )
        .prop_map(
            |(flags, (max_age, min_fresh), max_stale)| RequestDirectives {
                no_cache: flags.0,
                no_store: flags.1,
                only_if_cached: flags.2,
                authorization: flags.3,
                max_age,
                min_fresh,
                max_stale,
            },
        )
}

/// Generates a case.
pub fn case() -> impl Strategy<Value = Case> {
    let status = prop_oneof![
        6 => Just(200_u16),
        4 => prop::sample::select(vec![
            201, 203, 204, 206, 300, 301, 302, 304, 307, 308, 400, 401, 404, 405, 410, 414, 451, 499, 500, 501,
            503, 599,
        ]),
    ];
    let line = || prop::collection::vec(directive(), 1..4);
    let head = (
        prop::bool::weighted(0.2),
        status,
        prop::collection::vec(line(), 0..3),
        targeted(),
        targeted(),
    );
    let dates = (
        age(),
        date_field(20, 5),
        date_field(20, 30),
        date_field(300, 5),
        any::<bool>(),
    );
    let times = (
        prop_oneof![3 => Just(0_u64), 1 => 0_u64..4],
        0_u64..30,
        prop_oneof![Just((0_u64, 0_u64)), Just((5, 10))],
    );
    (head, dates, times, second()).prop_map(|(head, dates, times, second)| Case {
        first_authorized: head.0,
        status: head.1,
        control: head.2,
        own: head.3,
        cdn: head.4,
        age: dates.0,
        date: dates.1,
        expires: dates.2,
        last_modified: dates.3,
        has_etag: dates.4,
        response_delay: times.0,
        elapsed: times.1,
        site_windows: times.2,
        second,
    })
}

/// Sunday, 06-Nov-94 08:49:40 GMT: near the dates that RFC 9110 section 5.6.7 uses for the obsolete forms.
const NOW: u64 = 784_111_780;
