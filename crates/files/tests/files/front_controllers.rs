//! A WordPress in a folder beside another one: its permalinks run its own front controller.

use std::os::unix::fs::symlink;

use crate::site::{MULTISITE, PHP, STATIC, TestSite, resolved};

const ROOT: &str = "script /index.php";
const BLOG: &str = "script /blog/index.php";

#[test]
fn permalinks_run_the_front_controller_of_the_nearest_wordpress() {
    let site = TestSite::new(&[
        ("index.php", ""),
        ("wp-blog-header.php", ""),
        ("blog/index.php", ""),
        ("blog/wp-blog-header.php", ""),
        ("blog/wp-content/index.php", ""),
        ("blog/wp-content/uploads/2026/a.jpg", "a"),
        ("blog/wp-content/uploads/wp-blog-header.php", ""),
        ("blog/wp-content/uploads/index.php", ""),
        ("blog/wp-admin/index.php", ""),
        ("blog/wp-admin/wp-blog-header.php", ""),
        ("blog/news/index.php", ""),
        ("blog/news/wp-blog-header.php", ""),
        ("silent/index.php", ""),
        ("forum/index.html", "forum"),
        ("closed/index.php", ""),
        ("closed/wp-blog-header.php", ""),
        ("closed/.htaccess", "Deny from all"),
        ("wp-content/index.php", ""),
        ("wp-content/plugins/p/index.php", ""),
        ("wp-content/plugins/p/wp-blog-header.php", ""),
        ("1/2/3/4/5/index.php", ""),
        ("1/2/3/4/5/wp-blog-header.php", ""),
    ]);
    symlink("blog", site.path().join("linked")).unwrap();
    let root = site.root(PHP);
    for (path, expected) in [
        ("/blog/", BLOG),
        ("/blog/2026/11/hello/", BLOG),
        ("/blog/hello", BLOG),
        ("/blog/missing.css", BLOG),
        ("/blog/missing.php", BLOG),
        ("/blog/wp-content/uploads/2026/missing.jpg", BLOG),
        ("/blog/wp-content/missing/", BLOG),
        ("/blog/wp-admin/missing", BLOG),
        ("/blog/news/2026/", "script /blog/news/index.php"),
        ("/linked/hello/", "script /linked/index.php"),
        ("/blogs/hello/", ROOT),
        ("/2026/11/hello/", ROOT),
        ("/silent/missing/", ROOT),
        ("/forum/missing/", ROOT),
        ("/wp-content/plugins/p/missing", ROOT),
        ("/closed/hello/", "denied"),
        ("/1/2/3/4/5/hello/", ROOT),
        ("/blog/wp-content/uploads/x/../hello", "denied"),
    ] {
        assert_eq!(resolved(&root, path.as_bytes()), expected, "{path}");
    }
    assert_eq!(resolved(&site.root(STATIC), b"/blog/hello/"), "missing");
    let network = site.root(MULTISITE);
    assert_eq!(resolved(&network, b"/blog/hello/"), BLOG);
    assert_eq!(resolved(&network, b"/site2/hello/"), ROOT);
}

#[test]
fn a_root_without_a_front_controller_does_not_hide_that_of_a_folder() {
    let site = TestSite::new(&[
        ("index.html", "home"),
        ("blog/index.php", ""),
        ("blog/wp-blog-header.php", ""),
    ]);
    let root = site.root(PHP);
    assert_eq!(resolved(&root, b"/blog/2026/11/hello/"), BLOG);
    assert_eq!(resolved(&root, b"/hello/"), "missing");
}
