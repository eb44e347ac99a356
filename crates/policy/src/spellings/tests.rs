//! Tables of spellings, and the rules that apply to them.

use crate::site::EqualSpellings;
use proptest::prelude::*;

use super::*;
use crate::access::{AccessRules, AccessSetting};
use crate::pattern::PathPattern;

fn closed(path: &str) -> Rule {
    Rule {
        path: path.to_owned(),
        access: AccessRules {
            deny: AccessSetting::Is(vec!["192.0.2.0/24".parse().unwrap()]),
            ..AccessRules::default()
        },
        ..Rule::default()
    }
}

fn opened(path: &str) -> Rule {
    Rule {
        path: path.to_owned(),
        access: AccessRules {
            allow: AccessSetting::Off,
            deny: AccessSetting::Off,
            ..AccessRules::default()
        },
        ..Rule::default()
    }
}

fn tuned(path: &str) -> Rule {
    Rule {
        path: path.to_owned(),
        cache: Some(false),
        ..Rule::default()
    }
}

fn found(rules: &[Rule], method: &str, target: &str) -> Vec<Option<usize>> {
    let guard = SpellingGuard::of(EqualSpellings::WordPress, rules, false);
    let target = target.as_bytes();
    let (raw, query) = split_query(target);
    let (mut canonical, mut path) = (Vec::new(), Vec::new());
    crate::uri::canonical_path(raw, &mut canonical).unwrap();
    crate::uri::decoded_path(&canonical, &mut path).unwrap();
    let request = RequestedPaths {
        method,
        overrides_method: false,
        path: &path,
        query,
        country: None,
    };
    let mut found = vec![Some(9)];
    rules_of(
        &request,
        &guard,
        rules,
        &mut SpellingBuffers::default(),
        &mut found,
    );
    found
}

fn split_query(target: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, b""),
    }
}

#[track_caller]
fn assert_closes(rule: &Rule, targets: &[&str], wanted: bool) {
    for target in targets {
        let found = found(std::slice::from_ref(rule), "GET", target);
        assert_eq!(
            found.contains(&Some(0)),
            wanted,
            "{:?} and {target}: {found:?}",
            rule.path
        );
    }
}

#[test]
fn a_path_restricts_searches_and_lists_of_a_wordpress_in_a_folder() {
    for (path, target, wanted) in [
        ("/blog/search*", "/blog/?s=x", true),
        ("/blog/search/*", "/blog/index.php?s=x", true),
        ("/Blog/search/*", "/BLOG/a/post/?s=x", true),
        ("/a/b/c/author/ann", "/a/b/c/?author=1", true),
        ("/blog/search*", "/?s=x", false),
        ("/blog/search*", "/shop/?s=x", false),
        ("/blog/search*", "/blog/?tag=x", false),
        ("/blog/search", "/blogs/?s=x", false),
        ("/search*", "/blog/?s=x", true),
        ("/*", "/?s=x", true),
    ] {
        assert_closes(&closed(path), &[target], wanted);
    }
}

/// Every search got a 403, whatever the pattern.
#[test]
fn r19_a_pattern_restricts_searches_and_lists_only_if_it_may_match_them() {
    let internal = Rule {
        pattern: Some(PathPattern::compile("^/internal(/|$)").unwrap()),
        ..closed("pattern")
    };
    let elsewhere = [
        "/?s=x",
        "/blog/?s=x",
        "/?cat=3",
        "/?author=1",
        "/?tag=a",
        "/wp-json/wp/v2/posts?_embed=1",
    ];
    assert_closes(&internal, &elsewhere, false);
    for (text, target, wanted) in [
        ("^/internal", "/?s=x", false),
        ("(?i)^/Internal", "/?s=x", false),
        ("^/internal", "/?p=12", true),
        ("^/internal", "/?pagename=internal", true),
        ("^/search/", "/?s=x", true),
        ("^/s", "/?s=x", true),
        ("^/(internal|search)/", "/?s=x", true),
        ("^/(internal|hidden)/", "/?s=x", false),
        ("^/blog/search/", "/blog/?s=x", true),
        (
            "^/wp-json/wp/v2/users",
            "/wp-json/wp/v2/posts?_embed=1",
            true,
        ),
        ("^/", "/?s=x", true),
        ("internal", "/?s=x", true),
    ] {
        let rule = Rule {
            pattern: Some(PathPattern::compile(text).unwrap()),
            ..closed(text)
        };
        assert_closes(&rule, &[target], wanted);
    }
}

#[test]
fn rules_apply_to_all_spellings_of_a_path() {
    let same = [
        "/internal",
        "/internal/",
        "/INTERNAL/X",
        "/internal/x/",
        "//internal//x",
        "/%49nternal/x",
        "/internal%2Fx",
        "/internal~/x",
        "/internal./x",
        "/.internal/x",
        "/-internal-/x",
        "/internal+/x",
        "/internal%20/x",
        "/inter%26x;nal/x",
        "/inter%3Cb%3Enal/x",
        "/%2549nternal/x",
        "/index.php/internal/x",
        "/index.php/INTERNAL",
        "/INDEX.php//internal/x",
        "/blog/index.php/internal/x",
        "/wp-blog-header.php/internal/x",
        "/index.php/%2549nternal/x",
    ];
    assert_closes(&closed("/internal/*"), &same, true);
    assert_closes(&closed("/Internal*"), &same, true);
    let pattern = Rule {
        pattern: Some(PathPattern::compile("^/internal(/|$)").unwrap()),
        ..closed("")
    };
    assert_closes(&pattern, &same, true);
    // A pattern for names of files restricts neither searches nor pages by number.
    let files = Rule {
        pattern: Some(PathPattern::compile(r"\.(sql|bak)$").unwrap()),
        ..closed("")
    };
    assert_closes(
        &files,
        &["/?s=x", "/?author=1", "/?p=12", "/?m=2030"],
        false,
    );
    assert_closes(
        &files,
        &["/dump.sql", "/DUMP.SQL", "/index.php/dump.sql"],
        true,
    );
    let other = [
        "/",
        "/internals",
        "/x/internal/",
        "/intern",
        "/?utm_source=internal",
        "/index.php/x",
    ];
    assert_closes(&closed("/internal/*"), &other, false);
    assert_closes(
        &closed("/caf\u{e9}/*"),
        &["/CAF%C3%89/x", "/caf%C3%A9", "/caf%c3%a9./"],
        true,
    );
    assert_closes(
        &closed("/my.page"),
        &["/my-page/", "/MY..page", "/my%20page"],
        true,
    );
}

#[test]
fn rules_for_a_page_apply_to_its_feeds_and_further_pages() {
    let below = [
        "/plan/feed/",
        "/PLAN/feed/atom",
        "/plan/rss2",
        "/plan/page/2/",
        "/plan/page2",
        "/plan/3/",
        "/plan/comment-page-2/",
        "/plan/embed/",
        "/plan/trackback",
        "/plan/comment-page-2/feed/",
        "/index.php/plan/feed/",
    ];
    assert_closes(&closed("/plan"), &below, true);
    assert_closes(
        &closed("/plan"),
        &["/plan/child/", "/plan/feeds", "/plan/page/x"],
        false,
    );
    assert_closes(&closed("/"), &["/feed/", "/page/2/", "/index.php"], true);
    // A rule that names the feed itself counts.
    let rules = [opened("/plan/feed/"), closed("/plan")];
    assert_eq!(found(&rules, "GET", "/plan/feed/"), [Some(0)]);
    assert_eq!(found(&rules, "GET", "/plan/embed/"), [Some(1)]);
}

#[test]
fn rules_apply_to_queries_that_select_a_page() {
    let by_name = [
        "/?pagename=internal/x",
        "/?pagename=INTERNAL/x",
        "/?pagename=%2569nternal/x",
        "/?+page.name=1&%70agename=internal",
        "/?pagename[]=internal",
        "/index.php?pagename=internal/x",
        "/x/y/?pagename=internal/x",
        "/wp-admin/zzz.php?pagename=internal/x",
    ];
    let by_number = [
        "/?p=1",
        "/?page_id=1",
        "/?page.id=1",
        "/?name=x",
        "/?attachment=x",
        "/?attachment_id=1",
        "/?subpost_id=1",
        "/x/?p=1&preview=true",
    ];
    assert_closes(&closed("/internal/*"), &by_name, true);
    assert_closes(&closed("/internal/*"), &by_number, true);
    assert_closes(
        &closed("/internal/*"),
        &[
            "/?pagename=about",
            "/?p=",
            "/?s=internal",
            "/?cat=1",
            "/wp-admin/edit.php?p=1",
            "/wp-json/x?name=y",
        ],
        false,
    );
    for script in ["/wp-json/*", "/wp-admin/*", "/wp-login.php", "/robots.txt"] {
        assert_closes(&closed(script), &by_number, false);
    }
    assert_closes(
        &closed("/blog/internal/*"),
        &["/blog/?pagename=internal/x"],
        true,
    );
}

#[test]
fn rules_apply_to_queries_that_select_something_else() {
    for (rule, targets) in [
        (
            "/wp-json/wp/v2/users*",
            &[
                "/?rest_route=/wp/v2/users",
                "/?rest_route=%2FWP%2Fv2%2Fusers%2F1",
                "/?rest.route=//wp/v2/users",
                "/site2/?rest_route=/wp/v2/users",
                "/wp-json/wp/v2/posts?_embed",
                "/wp-json/batch/v1",
                "/wp-json/x?rest_route=/wp/v2/users",
            ][..],
        ),
        ("/search*", &["/?s=x", "/SEARCH/x"]),
        (
            "/category/secret/*",
            &[
                "/?cat=3",
                "/?category_name=secret",
                "/?taxonomy=category&term=secret",
            ],
        ),
        ("/author/*", &["/?author=1", "/?author_name=x"]),
        ("/2030/*", &["/?m=203001", "/?year=2030"]),
        ("/feed/*", &["/?feed=rss2"]),
        ("/product/*", &["/?product=x", "/?post_type=product"]),
        ("/wp-sitemap*", &["/?sitemap=index"]),
        ("/*", &["/", "/x", "/?p=1", "/?s=x"]),
    ] {
        assert_closes(&closed(rule), targets, true);
        assert_closes(&closed(rule), &["/about/", "/?utm_source=x"], rule == "/*");
    }
}

#[test]
fn exceptions_apply_only_to_their_own_path() {
    let rules = [
        opened("/internal/open*"),
        tuned("/internal/css*"),
        closed("/internal/*"),
    ];
    assert_eq!(found(&rules, "GET", "/internal/open/x"), [Some(0)]);
    assert_eq!(found(&rules, "GET", "/internal/css/x"), [Some(1)]);
    assert_eq!(found(&rules, "GET", "/INTERNAL/Open"), [Some(0)]);
    let other = found(&rules, "GET", "/internal/open/?pagename=internal/x");
    assert!(other.contains(&Some(2)), "{other:?}");
    let other = found(&rules, "GET", "/internal/open/?pagename=elsewhere");
    assert!(other.contains(&None), "{other:?}");
    let mut write = closed("/api/*");
    write.methods = vec!["POST".to_owned()];
    assert!(!found(&[write.clone()], "GET", "/API/x").contains(&Some(0)));
    assert!(found(&[write], "POST", "/API/x").contains(&Some(0)));
}

#[test]
fn a_rule_for_its_own_paths_only_is_for_its_own_methods_only() {
    let rule = |exact_access| Rule {
        methods: vec!["PUT".to_owned()],
        exact_access,
        ..closed("/*")
    };
    let has = |exact_access, overrides_method| {
        let rules = [rule(exact_access)];
        let guard = SpellingGuard::of(EqualSpellings::WordPress, &rules, false);
        let request = RequestedPaths {
            method: "POST",
            overrides_method,
            path: b"/index.php/wp-json/wp/v2/posts/1",
            query: b"",
            country: None,
        };
        let mut found = Vec::new();
        let mut buffers = SpellingBuffers::default();
        rules_of(&request, &guard, &rules, &mut buffers, &mut found);
        found.contains(&Some(0))
    };
    assert!(has(false, true) && !has(true, true));
    assert!(!has(false, false) && !has(true, false));
}

#[test]
fn sites_without_a_restricting_rule_have_no_guard() {
    assert!(!SpellingGuard::of(EqualSpellings::WordPress, &[tuned("/x*")], true).is_needed());
    assert!(!SpellingGuard::of(EqualSpellings::Exact, &[closed("/x*")], true).is_needed());
    let rest = SpellingGuard::of(EqualSpellings::WordPress, &[closed("/wp-json/*")], false);
    assert!(!rest.may_close_pages());
    let finds = |guard: &SpellingGuard, body: &[u8]| {
        let mut form = guard.form(b"application/x-www-form-urlencoded");
        form.push(body);
        form.finish()
    };
    assert!(finds(&rest, b"rest_route=x") && !finds(&rest, b"pagename=x"));
}

#[test]
fn forms_that_select_a_page_are_found() {
    let guard = SpellingGuard::of(EqualSpellings::WordPress, &[closed("/internal/*")], false);
    let long = format!("a={}&page_id=1", "b".repeat(5_000));
    let (form, parts) = (
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=b",
    );
    let head = "--b\r\nContent-Disposition: form-data; ";
    for (media_type, body, wanted) in [
        (form, "pagename=x".to_owned(), true),
        (form, "a=b&+%70age.id[]=1".to_owned(), true),
        (form, "p".to_owned(), true),
        (form, long, true),
        (form, format!("{}pagename=x", "+".repeat(9_000)), true),
        (
            "Application/X-WWW-Form-Urlencoded, x",
            "p=1".to_owned(),
            true,
        ),
        (form, "your-name=x&a=pagename&pagenames=1".to_owned(), false),
        ("application/json", "pagename=x".to_owned(), false),
        (parts, format!("{head}name=\"pagename\"\r\n\r\nx"), true),
        (parts, format!("{head}NAME= ' page.id[]'\r\n\r\nx"), true),
        (
            parts,
            format!("{head}name=\"{}p\"\r\n\r\nx", " ".repeat(3_000)),
            true,
        ),
        (parts, format!("{head}name=\"your-name\"\r\n\r\np=1"), false),
    ] {
        for size in [1, 7, 511, 1 << 20] {
            let mut reader = guard.form(media_type.as_bytes());
            for piece in body.as_bytes().chunks(size) {
                reader.push(piece);
            }
            assert_eq!(reader.finish(), wanted, "{body} in pieces of {size}");
        }
    }
}

proptest! {
    #[test]
    fn any_path_and_query_are_accepted(
        path in proptest::collection::vec(any::<u8>(), 0..60),
        query in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let path = [b"/".to_vec(), path].concat();
        let rules = [opened("/a*"), closed("/b/*"), closed("/*")];
        let guard = SpellingGuard::of(EqualSpellings::WordPress, &rules, true);
        let request = RequestedPaths { method: "GET", overrides_method: false, path: &path, query: &query, country: None };
        let mut found = Vec::new();
        rules_of(&request, &guard, &rules, &mut SpellingBuffers::default(), &mut found);
        // Every URL is below the root.
        prop_assert!(!found.is_empty());
        prop_assert!(found.len() <= rules.len() + 1);
    }

    #[test]
    fn any_form_is_accepted(body in proptest::collection::vec(any::<u8>(), 0..200), size in 1_usize..50) {
        let guard = SpellingGuard::of(EqualSpellings::WordPress, &[closed("/b/*")], true);
        for media_type in [&b"multipart/x"[..], b"application/x-www-form-urlencoded"] {
            let mut reader = guard.form(media_type);
            for piece in body.chunks(size) {
                reader.push(piece);
            }
            reader.finish();
        }
    }

    /// A rule applies to its path in any case, with additional slashes and signs.
    #[test]
    fn no_sign_avoids_a_rule(noise in "[~.+ -]{0,3}", upper in any::<bool>(), front in any::<bool>()) {
        let name = if upper { "INTERNAL" } else { "internal" };
        let front = if front { "/index.php" } else { "" };
        let target = format!("{front}/{noise}{name}{noise}/x{noise}/").replace(' ', "%20");
        prop_assume!(!target.contains("/./") && !target.contains("/../"));
        prop_assert!(found(&[closed("/internal/*")], "GET", &target).contains(&Some(0)), "{}", target);
    }
}

#[test]
fn exact_access_covers_the_paths_of_its_rule_only() {
    let exact = Rule {
        exact_access: true,
        ..closed("/internal/*")
    };
    let has = |rules: &[Rule], target, index| found(rules, "GET", target).contains(&Some(index));
    for target in [
        "/INTERNAL/x",
        "/internal",
        "/?p=12",
        "/?pagename=internal/x",
    ] {
        assert!(has(&[closed("/internal/*")], target, 0), "{target}");
        assert!(!has(std::slice::from_ref(&exact), target, 0), "{target}");
        // Other rules keep their spellings.
        let both = [exact.clone(), closed("/internal/*")];
        assert!(!has(&both, target, 0) && has(&both, target, 1), "{target}");
    }
}
