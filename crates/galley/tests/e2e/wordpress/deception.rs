//! Web cache deception: a URL that looks like a file to a cache and like a page to WordPress. After a logged-in user has
//! requested it, an anonymous client must not get the personal page from the cache.

use galley_testkit::client::Response;

use super::stack::WordPressStack;

test_with_shared_stacks! {
    path_confusion_never_exposes_a_logged_in_users_page,
}

/// Delimiters between the page and the file name, which URL parsers interpret differently: path parameters, encoded and doubly
/// encoded separators, NUL bytes and line ends, dot segments, double slashes, and delimiters of frameworks.
const DELIMITERS: &[&str] = &[
    "/",
    ";",
    "%3b",
    "%2f",
    "%2F",
    "%00",
    "%0a",
    "%0d%0a",
    "%09",
    "%20",
    "%23",
    "%3f",
    "?",
    "?/",
    ".",
    "..",
    "/./",
    "//",
    "/;/",
    "/%2e/",
    "/..%2f",
    "%2f..%2f",
    "/..;/",
    "%5c",
    "\\",
    "!",
    "$",
    "&",
    "'",
    "(",
    "*",
    "+",
    ",",
    ":",
    "=",
    "@",
    "~",
    "|",
    "^",
    "%7f",
    "%80",
    "%c0%af",
    "%252f",
    "%2500",
    "%u002f",
    "/x/%2e%2e/",
];

const FILES: &[&str] = &[
    "x.css",
    "x.js",
    "x.png",
    "favicon.ico",
    "robots.txt",
    "x.woff2",
    "x.svg",
    "index.html",
];

/// URLs of the page that start with a path of a real file, or that normalization or WordPress maps to the page.
const FIXED_URLS: &[&str] = &[
    "/wp-includes/css/..%2f..%2fdeceived/",
    "/wp-includes/css/%2e%2e/%2e%2e/deceived/",
    "/wp-includes/css/dist/../../../deceived/",
    "/wp-content/uploads/..;/..;/deceived/",
    "/wp-includes/js/jquery/jquery.min.js/../../../../deceived/",
    "/robots.txt/..%2fdeceived/",
    "/favicon.ico%2f..%2fdeceived/",
    "//deceived/",
    "/./deceived/",
    "/deceived//",
    "/deceived/.",
    "/deceived%20",
    "/deceived.",
    "/deceived/%2e",
    "/DECEIVED/",
    "/%64eceived/",
    "/deceived/?x.css",
    "/deceived/?file=x.css",
    "/index.php/deceived/x.css",
    "/index.php/deceived/",
];

fn path_confusion_never_exposes_a_logged_in_users_page(stack: &WordPressStack) {
    stack.publish(["deceived"]);
    let mut editor = stack.editor();
    let page = editor.get("/deceived/").unwrap();
    assert!(is_personal(&page), "{}", page.excerpt());
    let profile = editor.get("/wp-admin/profile.php").unwrap();
    assert!(is_personal(&profile), "{}", profile.excerpt());
    let mut personal = 0;
    for target in addresses() {
        let Ok(page) = editor.get(&target) else {
            panic!("no response for {target}\n{}", stack.galley.log())
        };
        personal += usize::from(is_personal(&page));
        let status = page.cache_status();
        assert!(
            !is_personal(&page) || !status.contains("stored"),
            "{target}: {status}"
        );
        let anonymous = stack.get(&target);
        assert!(
            !is_personal(&anonymous),
            "{target}: {}",
            anonymous.excerpt()
        );
    }
    // WordPress must show the editor's page for some of the URLs, otherwise the test proves nothing.
    assert!(
        personal >= 10,
        "only {personal} URLs showed the editor's page"
    );
}

/// Returns the URLs to test: fixed ones, and combinations of page, delimiter and file name.
pub fn addresses() -> Vec<String> {
    let mut all: Vec<String> = FIXED_URLS.iter().map(|&target| target.to_owned()).collect();
    let is_long = std::env::var_os("GALLEY_HOSTILE_LONG").is_some();
    for (number, delimiter) in DELIMITERS.iter().enumerate() {
        for (file_number, file) in FILES.iter().enumerate() {
            for (page_number, page) in ["/deceived", "/wp-admin/profile.php"].iter().enumerate() {
                // By default one URL in fifteen, with each delimiter at least once.
                let is_selected = (number + page_number * 3) % FILES.len() == file_number;
                if is_long || (is_selected && number % 2 == page_number) {
                    all.push(format!("{page}{delimiter}{file}"));
                }
            }
        }
    }
    all
}

/// Only logged-in users get the toolbar, the profile form and the logout link.
fn is_personal(response: &Response) -> bool {
    let text = response.text();
    ["id=\"wpadminbar\"", "id=\"your-profile\"", "action=logout"]
        .iter()
        .any(|part| text.contains(part))
}
