//! Private fragments: the parts of a page that differ for a member or a visitor with a cart.
//!
//! The plugin describes them like shared fragments ([`crate::fragments`]), with `private-session` or `private-page` in place
//! of a definition. In the public page such a fragment is a hole: the stored page has the content for anonymous visitors
//! there. In a page that is generated for one visitor it has that visitor's bytes, with their tags. [`compare`] finds whether a
//! page differs from the public one outside the fragments, and accepts any positions.

use std::ops::Range;

use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::cookie::{self, Class, CookiePair};
use crate::fragments::FragmentPart;
use crate::random_ids::RandomIds;
use crate::site::Policy;
use crate::wordpress;

/// The field with the class of the visitor for whom a page was generated: roles and capabilities, or a visitor with a
/// cart.
pub const MEMBER: HeaderName = HeaderName::from_static("galley-member");

/// The maximum length of a class, in bytes.
const MAX_CLASS: usize = 200;

/// The pages on which the bytes of a private fragment are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PrivateScope {
    /// All pages with the fragment.
    Session,
    /// This page only.
    Page,
}

impl PrivateScope {
    /// The scope in place of a definition; `None`: the fragment is a shared one.
    pub fn of(definition: &str) -> Option<Self> {
        match definition {
            "private-session" => Some(Self::Session),
            "private-page" => Some(Self::Page),
            _ => None,
        }
    }
}

/// The class of the visitor for whom a response was generated; `None` if it names none.
pub fn class(fields: &HeaderMap) -> Option<&str> {
    let mut values = fields.get_all(MEMBER).into_iter();
    let class = values.next()?.to_str().ok()?;
    let is_word = !class.is_empty() && class.bytes().all(|byte| byte.is_ascii_graphic());
    (values.next().is_none() && is_word && class.len() <= MAX_CLASS).then_some(class)
}

/// The cookies by which PHP identifies a visitor, and those that select a variant, in their order, as one line. PHP gets
/// no other cookies of this visitor when it generates a page for them.
pub fn session_cookies<'a>(
    fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    policy: &Policy,
) -> Vec<u8> {
    let mut line = Vec::new();
    let lines = fields.filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    for pair in lines.flat_map(|(_, line)| cookie::pairs(line)) {
        if cookie::classify(pair.name, policy) != Class::Ignored {
            if !line.is_empty() {
                line.extend_from_slice(b"; ");
            }
            line.extend_from_slice(pair.name);
            line.push(b'=');
            line.extend_from_slice(pair.value);
        }
    }
    line
}

/// The cookies of a line that identify a member or a cart: each identifies the session.
pub fn owners(line: &[u8]) -> impl Iterator<Item = CookiePair<'_>> {
    cookie::pairs(line).filter(|pair| wordpress::is_member_cookie(pair.name))
}

/// Whether a response begins or ends a session, so that fragments stored for it before must not be used again.
pub fn changes_session(fields: &HeaderMap) -> bool {
    let mut set = fields.get_all(http::header::SET_COOKIE).into_iter();
    set.any(|line| {
        let pair = cookie::pairs(line.as_bytes()).next();
        pair.is_some_and(|pair| wordpress::is_member_cookie(pair.name))
    })
}

/// The fields of a page with private fragments: those of the public page, without validators and fields that permit storing.
pub fn own_fields(fields: &HeaderMap) -> HeaderMap {
    let kept = fields.iter().filter(|(name, _)| !lets_store(name));
    let mut fields_of_member: HeaderMap = kept
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    fields_of_member.insert(CACHE_CONTROL, HeaderValue::from_static(NEVER_SHARED));
    fields_of_member
}

/// Whether a field permits storing a response, or identifies its bytes.
pub fn lets_store(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.ends_with("cache-control")
        || name.ends_with("expires")
        || name.starts_with("surrogate-")
        || SHARED_FIELDS.contains(&name)
}

/// `Cache-Control` of every response with private fragments.
pub const NEVER_SHARED: &str = "private, no-store";

/// Further fields that caches or browsers could use to store a response, or to combine it with another.
const SHARED_FIELDS: &[&str] = &[
    "accept-ranges",
    "age",
    "cache-tag",
    "content-length",
    "date",
    "etag",
    "last-modified",
    "pragma",
];

/// The first difference between a page that was generated for a visitor and the public one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageDifference {
    /// The private fragments are not the same: the name of the first that is missing or new.
    Fragments(String),
    /// The content outside the fragments differs at this byte of the public page.
    Content(usize),
    /// The status differs.
    Status(u16),
    /// The page sets a cookie.
    Cookie,
    /// Several private fragments have this name but different bytes. Only one of them could be stored under the name.
    Repeated(String),
}

/// Compares a page that was generated for a visitor with the public one, outside the private fragments. `holes`: names and
/// positions in the public page. `None`: they are equal there, but for random identifiers of elements (`RandomIds`).
pub fn compare<'h>(
    public: &[u8],
    holes: impl Iterator<Item = (&'h str, Range<u32>)>,
    page: &[u8],
    parts: &[FragmentPart],
) -> Option<PageDifference> {
    let repeated = parts.iter().find(|part| is_repeated(page, parts, part));
    let mut parts = parts.iter();
    let mut ids = RandomIds::default();
    let (mut at, mut at_page) = (0, 0);
    for (name, hole) in holes {
        let Some(part) = parts.next().filter(|part| part.label == name) else {
            return Some(PageDifference::Fragments(name.to_owned()));
        };
        let (Ok(start), Ok(end)) = (usize::try_from(hole.start), usize::try_from(hole.end)) else {
            return Some(PageDifference::Content(at));
        };
        let pieces = [public.get(at..start), page.get(at_page..part.start)];
        if let Some(difference) = first_difference(&mut ids, at, pieces) {
            return Some(difference);
        }
        at = end;
        at_page = part.start.saturating_add(part.length);
    }
    if let Some(part) = parts.next() {
        return Some(PageDifference::Fragments(part.label.clone()));
    }
    let difference = first_difference(&mut ids, at, [public.get(at..), page.get(at_page..)]);
    let elsewhere = || {
        ids.used_elsewhere([public, page])
            .map(PageDifference::Content)
    };
    let repeated = || Some(PageDifference::Repeated(repeated?.label.clone()));
    difference.or_else(elsewhere).or_else(repeated)
}

/// Whether a private fragment has the same name as another one with other bytes. `parts`: the private fragments of the page.
pub fn is_repeated(page: &[u8], parts: &[FragmentPart], part: &FragmentPart) -> bool {
    let bytes = |part: &FragmentPart| {
        let end = part.start.checked_add(part.length)?;
        page.get(part.start..end)
    };
    let mut same_name = parts.iter().filter(|other| other.label == part.label);
    same_name.any(|other| bytes(other) != bytes(part))
}

/// The first difference of two pieces, of which the first begins at byte `start` of the public page.
fn first_difference<'p>(
    ids: &mut RandomIds<'p>,
    start: usize,
    pieces: [Option<&'p [u8]>; 2],
) -> Option<PageDifference> {
    let [Some(ours), Some(theirs)] = pieces else {
        return Some(PageDifference::Content(start));
    };
    let at = ids.first_difference(ours, theirs)?;
    Some(PageDifference::Content(start + at))
}

#[cfg(test)]
mod tests {
    use http::header::SET_COOKIE;
    use proptest::prelude::*;

    use super::*;
    use crate::tags::Tags;

    fn part(label: &str, start: usize, length: usize) -> FragmentPart {
        FragmentPart {
            label: label.to_owned(),
            start,
            length,
            blocks: "-".to_owned(),
            definition: "private-page".to_owned(),
            tags: Tags::default(),
            has_context: false,
        }
    }

    #[test]
    fn differences_outside_of_holes_are_found() {
        let public = b"<head></head><body>log in</body>";
        let holes = || [("style", 6..6), ("greeting", 19..25)].into_iter();
        let own = b"<head><style></head><body>Hello Ann</body>";
        let parts = [part("style", 6, 7), part("greeting", 26, 9)];
        assert_eq!(compare(public, holes(), own, &parts), None);
        let other = b"<head><style></head><BODY>Hello Ann</body>";
        let found = compare(public, holes(), other, &parts);
        assert_eq!(found, Some(PageDifference::Content(14)));
        let longer = b"<head><style></head><body>Hello Ann</body>!";
        let found = compare(public, holes(), longer, &parts);
        assert_eq!(found, Some(PageDifference::Content(32)));
        let missing = compare(public, holes(), own, &parts[..1]);
        assert_eq!(
            missing,
            Some(PageDifference::Fragments("greeting".to_owned()))
        );
        let beyond = [part("style", 6, 7), part("greeting", 26, usize::MAX)];
        assert!(compare(public, holes(), own, &beyond).is_some());
        let mut more = parts.to_vec();
        more.push(part("cart", 40, 0));
        let found = compare(public, holes(), own, &more);
        assert_eq!(found, Some(PageDifference::Fragments("cart".to_owned())));
    }

    #[test]
    fn random_identifiers_outside_of_holes_are_no_difference() {
        let page = |digits: &str, own: &str| {
            let (input, end) = (format!("<b>{own}</b><input id=\"q_{digits}\">"), "</form>");
            format!("<label for=\"q_{digits}\">{input}{end}").into_bytes()
        };
        let (one, other) = ("6b0b2c0e63336", "6b0b2c104b563");
        let holes = || std::iter::once(("name", 32..33));
        let parts = [part("name", 32, 3)];
        let public = page(one, "-");
        assert_eq!(compare(&public, holes(), &page(other, "Ann"), &parts), None);
        // A private fragment that refers to the identifier would refer to nothing in the public page.
        let parts = [part("name", 32, other.len())];
        let found = compare(&public, holes(), &page(other, other), &parts);
        assert_eq!(found, Some(PageDifference::Content(14)));
    }

    #[test]
    fn fragments_of_one_name_must_have_the_same_bytes() {
        let (public, own) = (b"a b c", b"aX bY c");
        let holes = || [("x", 1..1), ("x", 3..3)].into_iter();
        let parts = [part("x", 1, 1), part("x", 4, 1)];
        assert!(is_repeated(own, &parts, &parts[0]));
        let found = compare(public, holes(), own, &parts);
        assert_eq!(found, Some(PageDifference::Repeated("x".to_owned())));
        let same = b"aX bX c";
        assert!(!is_repeated(same, &parts, &parts[1]));
        assert_eq!(compare(public, holes(), same, &parts), None);
    }

    #[test]
    fn classes_are_single_words() {
        let class_of = |values: &[&'static str]| {
            let fields = values
                .iter()
                .map(|value| (MEMBER, HeaderValue::from_static(value)));
            let fields: HeaderMap = fields.collect();
            class(&fields).map(str::to_owned)
        };
        assert_eq!(
            class_of(&["subscriber-0a"]).as_deref(),
            Some("subscriber-0a")
        );
        assert_eq!(class_of(&[]), None);
        assert_eq!(class_of(&[""]), None);
        assert_eq!(class_of(&["a b"]), None);
        let long: &'static str = Box::leak("x".repeat(MAX_CLASS + 1).into());
        assert_eq!(class_of(&[long]), None);
        let mut twice = HeaderMap::new();
        twice.append(MEMBER, HeaderValue::from_static("a"));
        twice.append(MEMBER, HeaderValue::from_static("b"));
        assert_eq!(class(&twice), None);
    }

    #[test]
    fn php_gets_only_the_cookies_of_the_session() {
        let site = Policy::wordpress();
        let line: &[u8] =
            b"_ga=1; wordpress_logged_in_x=ann; wp-settings-1=a; woocommerce_items_in_cart=1";
        let fields = [
            ("cookie", line),
            ("accept", b"x"),
            ("Cookie", b"wordpress_sec_y=z"),
        ];
        let sent = session_cookies(fields.into_iter(), &site);
        assert_eq!(
            sent,
            b"wordpress_logged_in_x=ann; woocommerce_items_in_cart=1; wordpress_sec_y=z"
        );
        assert_eq!(owners(&sent).count(), 3);
    }

    #[test]
    fn pages_with_private_fragments_cannot_be_stored() {
        let rows = [
            ("content-type", "text/html"),
            ("link", "</style.css>"),
            ("cache-control", "public, max-age=60"),
            ("cdn-cache-control", "max-age=60"),
            ("example-cdn-cache-control", "max-age=60"),
            ("surrogate-control", "max-age=60"),
            ("surrogate-key", "a"),
            ("x-accel-expires", "60"),
            ("expires", "x"),
            ("etag", "x"),
            ("last-modified", "x"),
            ("age", "1"),
        ];
        let fields = rows.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        let own = own_fields(&fields.collect());
        let mut names: Vec<&str> = own.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["cache-control", "content-type", "link"]);
        assert_eq!(own.get(CACHE_CONTROL).unwrap(), "private, no-store");
    }

    #[test]
    fn set_cookie_begins_and_ends_sessions() {
        let says = |line: &'static str| {
            let fields: HeaderMap = [(SET_COOKIE, HeaderValue::from_static(line))]
                .into_iter()
                .collect();
            changes_session(&fields)
        };
        assert!(says(
            "wordpress_logged_in_0a=%20; expires=Thu, 01 Jan 1970 00:00:00 GMT"
        ));
        assert!(says("woocommerce_cart_hash=0; path=/"));
        assert!(!says("_ga=wordpress_logged_in_0a; path=/"));
        assert!(!changes_session(&HeaderMap::new()));
    }

    proptest! {
        #[test]
        fn a_page_that_equals_the_public_one_outside_the_holes_does_not_differ(
            pieces in proptest::collection::vec(("[a-z<>]{0,9}", "[a-z]{0,5}", "[A-Z]{0,9}"), 0..6),
            tail in "[a-z]{0,9}",
        ) {
            let mut public = Vec::new();
            let mut own = Vec::new();
            let mut holes = Vec::new();
            let mut parts = Vec::new();
            for (before, theirs, mine) in &pieces {
                public.extend_from_slice(before.as_bytes());
                own.extend_from_slice(before.as_bytes());
                let start = u32::try_from(public.len()).unwrap();
                public.extend_from_slice(theirs.as_bytes());
                parts.push(part(&holes.len().to_string(), own.len(), mine.len()));
                own.extend_from_slice(mine.as_bytes());
                holes.push(start..u32::try_from(public.len()).unwrap());
            }
            public.extend_from_slice(tail.as_bytes());
            own.extend_from_slice(tail.as_bytes());
            let names: Vec<String> = (0..holes.len()).map(|number| number.to_string()).collect();
            let names = names.iter().zip(&holes).map(|(name, hole)| (&**name, hole.clone()));
            prop_assert_eq!(compare(&public, names, &own, &parts), None);
        }

        #[test]
        fn any_positions_are_accepted(
            public in proptest::collection::vec(any::<u8>(), 0..40),
            places in proptest::collection::vec((any::<u8>(), any::<u8>(), 0_usize..60, 0_usize..60), 0..8),
        ) {
            let holes: Vec<_> = places.iter().map(|(a, b, ..)| u32::from(*a) / 4..u32::from(*b) / 4).collect();
            let parts: Vec<_> = places.iter().map(|(_, _, start, length)| part("x", *start, *length)).collect();
            let _ = compare(&public, holes.iter().map(|hole| ("x", hole.clone())), &public, &parts);
        }
    }
}
