//! Web cache deception: an address that looks like a file to a cache and like a page to WordPress, shown to somebody who is
//! logged in, gives a stranger nothing of theirs afterwards.

use galley_testkit::client::Response;

use super::stack::Stack;

both! {
    a_page_of_an_editor_is_got_by_no_other_address,
}

/// What stands between the page and the part that looks like a file, for parsers that read addresses differently: path parameters, encoded
/// and doubly encoded separators, ends of strings and lines, climbing, doubled slashes, and delimiters of frameworks.
const BETWEEN: &[&str] = &[
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

/// The page, as if a file of WordPress's own led to it.
const BELOW_FILES: &[&str] = &[
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

fn a_page_of_an_editor_is_got_by_no_other_address(stack: &Stack) {
    stack.publish(["deceived"]);
    let mut editor = stack.editor();
    let own = editor.get("/deceived/").unwrap();
    assert!(is_personal(&own), "{}", own.beginning());
    let profile = editor.get("/wp-admin/profile.php").unwrap();
    assert!(is_personal(&profile), "{}", profile.beginning());
    let mut personal = 0;
    for target in addresses() {
        let Ok(own) = editor.get(&target) else {
            panic!("no answer for {target}\n{}", stack.galley.log())
        };
        personal += usize::from(is_personal(&own));
        let status = own.cache_status();
        assert!(
            !is_personal(&own) || !status.contains("stored"),
            "{target}: {status}"
        );
        let stranger = stack.get(&target);
        assert!(
            !is_personal(&stranger),
            "{target}: {}",
            stranger.beginning()
        );
    }
    // Some of them do lead WordPress to the editor's page, or else nothing would have been tried.
    assert!(personal >= 10, "{personal} showed the editor's own page");
}

pub fn addresses() -> Vec<String> {
    let mut all: Vec<String> = BELOW_FILES
        .iter()
        .map(|&target| target.to_owned())
        .collect();
    let is_long = std::env::var_os("GALLEY_HOSTILE_LONG").is_some();
    for (number, between) in BETWEEN.iter().enumerate() {
        for (file_number, file) in FILES.iter().enumerate() {
            for (page_number, page) in ["/deceived", "/wp-admin/profile.php"].iter().enumerate() {
                // A fifteenth of them, each delimiter at least once.
                let is_next = (number + page_number * 3) % FILES.len() == file_number;
                if is_long || (is_next && number % 2 == page_number) {
                    all.push(format!("{page}{between}{file}"));
                }
            }
        }
    }
    all
}

/// The toolbar, the form of the profile, and the way out are for who is logged in.
fn is_personal(answer: &Response) -> bool {
    let text = answer.text();
    ["id=\"wpadminbar\"", "id=\"your-profile\"", "action=logout"]
        .iter()
        .any(|mark| text.contains(mark))
}
