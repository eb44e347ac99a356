//! Arbitrary paths cause no panic and resolve to nothing outside the root.

use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::sync::OnceLock;

use crate::site::{MULTISITE, PHP, STATIC, TestSite};
use galley_files::Resolved;
use proptest::prelude::*;

/// A site with many symlinks to targets inside and outside, and with files of the same names outside.
fn site_with_links() -> &'static TestSite {
    static SITE: OnceLock<TestSite> = OnceLock::new();
    SITE.get_or_init(|| {
        let site = TestSite::new(&[
            ("index.php", ""),
            ("a/b.txt", "in"),
            ("a/c/b.txt", "in"),
            ("a/c/x.php", ""),
            ("wp-content/b.txt", "in"),
            ("wp-content/uploads/x.php", ""),
        ]);
        let base = site.path();
        let outside = base.parent().unwrap();
        std::fs::write(outside.join("b.txt"), "out").unwrap();
        std::fs::write(outside.join("x.php"), "out").unwrap();
        for (target, link) in [
            ("..", "up"),
            ("../..", "a/up"),
            ("/", "top"),
            ("a/c", "in"),
            (".", "self"),
            ("../site/a", "around"),
            ("../b.txt", "out.txt"),
            ("../x.php", "out.php"),
            ("/proc/self/fd", "fd"),
            ("/proc/self/cwd", "cwd"),
        ] {
            symlink(target, base.join(link)).unwrap();
        }
        site
    })
}

fn paths() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "a",
        "b.txt",
        "c",
        "up",
        "in",
        "self",
        "top",
        "around",
        "out.txt",
        "out.php",
        "fd",
        "cwd",
        "..",
        ".",
        "",
        "x.php",
        "index.php",
        "site",
        "wp-content",
        "uploads",
        "%2e%2e",
        "..\\",
        "\0",
        "proc",
        "self",
        "environ",
        "3",
    ]);
    let from_words = prop::collection::vec(word, 0..10)
        .prop_map(|words| format!("/{}", words.join("/")).into_bytes());
    prop_oneof![4 => from_words, 1 => prop::collection::vec(any::<u8>(), 0..40)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_outside_the_root_is_served(path in paths()) {
        let base = std::fs::canonicalize(site_with_links().path()).unwrap();
        for options in [PHP, STATIC, MULTISITE] {
            let root = site_with_links().root(options.clone());
            let found = root.resolve(&path);
            // `resolve_script` returns the same script, or none.
            if let Some(script) = root.resolve_script(&path) {
                prop_assert!(matches!(&found, Resolved::Script(same) if *same == script), "{found:?}");
            }
            match found {
                Resolved::File(asset) => {
                    for form in asset.forms() {
                        let real = std::fs::read_link(format!("/proc/self/fd/{}", form.file.as_raw_fd())).unwrap();
                        prop_assert!(real.starts_with(&base), "{real:?}");
                        prop_assert!(real.extension().is_none_or(|extension| extension != "php"));
                    }
                }
                Resolved::Script(script) => {
                    prop_assert!(options.php);
                    let real = std::fs::canonicalize(String::from_utf8(script.filename).unwrap()).unwrap();
                    prop_assert!(real.starts_with(&base), "{real:?}");
                    prop_assert!(real.is_file() && real.extension().is_some_and(|extension| extension == "php"));
                    prop_assert_ne!(script.path_info, Some(Vec::new()));
                }
                Resolved::Redirect(to) => {
                    prop_assert!(to.starts_with(b"/") && !to.starts_with(b"//") && to.ends_with(b"/"));
                }
                Resolved::Missing | Resolved::Denied => {}
                Resolved::Failed(error) => prop_assert!(false, "{error}"),
            }
        }
    }
}
