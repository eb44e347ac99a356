//! A `deny` rule for a path also blocks every other URL under which WordPress shows the page.

use std::net::Ipv4Addr;

use galley_testkit::client::{Connection, Request, Response};

use super::stack::{DENY_RULES_HOST, TIMEOUT, WordPressStack};

test_with_shared_stacks! {
    a_deny_rule_covers_every_url_form_of_a_page,
    a_deny_rule_does_not_block_other_pages,
}

/// Last byte of the client address that the rules deny.
const DENIED_CLIENT: u8 = 3;
const ALLOWED_CLIENT: u8 = 1;

fn send(stack: &WordPressStack, client: u8, request: &Request) -> Response {
    let address = Ipv4Addr::new(127, 0, 0, client);
    let mut connection = Connection::from_address(address, stack.addr(), TIMEOUT).unwrap();
    connection
        .exchange(&stack.with_default_host(request.clone().host(DENY_RULES_HOST)))
        .unwrap()
}

/// Publishes pages below `/internal/` that contain `SECRETWORD`, and returns the IDs of parent, child and the child's attachment.
fn publish(stack: &WordPressStack) -> [u32; 3] {
    let output = stack.php(
        "$page = fn($slug, $parent) => wp_insert_post(['post_type' => 'page', 'post_name' => $slug, 'post_title' => $slug, \
         'post_content' => 'SECRETWORD', 'post_status' => 'publish', 'comment_status' => 'open', 'post_author' => 1, \
         'post_parent' => $parent]); \
         update_option('wp_attachment_pages_enabled', 1); \
         $a = $page('internal', 0); $b = $page('x', $a); \
         wp_insert_comment(['comment_post_ID' => $b, 'comment_content' => 'SECRETWORD said', 'comment_approved' => 1, \
         'comment_author' => 'guest']); \
         $c = wp_insert_attachment(['post_title' => 'plan', 'post_name' => 'plan', 'post_content' => 'SECRETWORD', \
         'post_status' => 'inherit', 'post_mime_type' => 'image/png', 'guid' => 'http://wp.test/plan.png'], false, $b); \
         echo \"$a $b $c\";",
    );
    let ids: Vec<u32> = output
        .split_whitespace()
        .map(|id| id.parse().unwrap())
        .collect();
    ids.try_into().unwrap()
}

fn target_forms([parent, child, attachment]: [u32; 3]) -> Vec<String> {
    let mut all: Vec<String> = PATHS
        .iter()
        .chain(QUERIES)
        .map(|text| (*text).to_owned())
        .collect();
    for id in [parent, child] {
        for form in [
            "/?page_id=ID",
            "/?p=ID",
            "/?p=ID&preview=true",
            "/?page_id=ID&preview=true",
            "/?p=ID&post_type=page",
            "/?page.id=ID",
            "/?p[]=ID",
            "/?%70age_id=ID",
            "/?page_id=%20ID",
            "/?p=ID&feed=rss2",
            "/?page_id=ID&embed=true",
            "/no-such-place/?page_id=ID",
            "/wp-admin/zzz.php?page_id=ID",
            "/wp-blog-header.php?page_id=ID",
            "/index.php?page_id=ID&preview=1",
            "/wp-json/wp/v2/pages/ID",
            "/WP-JSON/wp/v2/pages/ID",
            "/index.php/wp-json/wp/v2/pages/ID",
            "/?rest_route=/wp/v2/pages/ID",
            "/?rest_route=/WP/v2/pages/ID",
            "/?rest.route=/wp/v2/pages/ID",
            "/?+rest_route=%2Fwp%2Fv2%2Fpages%2FID",
            "/index.php?rest_route=/wp/v2/pages/ID",
            "/no-such-place?rest_route=/wp/v2/pages/ID",
            "/wp%2djson/wp/v2/pages/ID",
        ] {
            all.push(form.replace("ID", &id.to_string()));
        }
    }
    for form in [
        "/?attachment_id=ID",
        "/?p=ID",
        "/?attachment_id=ID&preview=true",
        "/?subpost_id=ID",
    ] {
        all.push(form.replace("ID", &attachment.to_string()));
    }
    all
}

/// Returns labeled `GET` and `POST` requests. WordPress handles `POST` like `GET`, but without a redirect to the canonical URL.
fn requests(ids: [u32; 3]) -> Vec<(String, Request)> {
    let mut all = Vec::new();
    for target in target_forms(ids) {
        all.push((format!("GET {target}"), Request::get(&target)));
        let request = Request::form(&target, &[("word", "x")]);
        all.push((format!("POST {target}"), request));
    }
    let child = ids[1].to_string();
    for (name, value) in [
        ("pagename", "internal/x"),
        ("pagename", "INTERNAL/x"),
        ("page_id", child.as_str()),
        ("p", child.as_str()),
        (" page.id", child.as_str()),
        ("pagename[]", "internal/x"),
        ("attachment", "plan"),
        ("rest_route", "/wp/v2/pages?slug=x"),
    ] {
        for target in [
            "/",
            "/no-such-place/",
            "/index.php",
            "/wp-admin/zzz.php",
            "/x/wp-json/y",
        ] {
            let label = format!("POST {target} with {name}={value}");
            all.push((label, Request::form(target, &[(name, value)])));
            let parts = format!(
                "--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n--b--\r\n"
            );
            let label = format!("POST {target} with the part {name}={value}");
            let media_type = "multipart/form-data; boundary=b";
            all.push((label, Request::post(target, media_type, parts)));
        }
    }
    let combined = "application/x-www-form-urlencoded, text/plain";
    let padded = format!("a={}&pagename=internal/x", "b".repeat(300_000));
    for (media_type, body) in [
        (combined, "pagename=internal/x".to_owned()),
        (
            "Application/X-WWW-Form-Urlencoded",
            "%70agename=internal/x".to_owned(),
        ),
        (URLENCODED, padded),
    ] {
        let label = format!("POST / as {media_type}, {} bytes", body.len());
        all.push((label, Request::post("/", media_type, body)));
    }
    all
}

fn a_deny_rule_covers_every_url_form_of_a_page(stack: &WordPressStack) {
    let ids = publish(stack);
    let mut shown = 0;
    let mut not_denied = Vec::new();
    for (label, request) in requests(ids) {
        let allowed = send(stack, ALLOWED_CLIENT, &request);
        if !allowed.text().contains("SECRETWORD") {
            continue;
        }
        shown += 1;
        let denied = send(stack, DENIED_CLIENT, &request);
        if denied.status != 403 {
            not_denied.push(format!("{label}: {}", denied.status));
        }
    }
    assert!(
        not_denied.is_empty(),
        "{} of {shown} URLs are not denied:\n{}",
        not_denied.len(),
        not_denied.join("\n")
    );
    // WordPress must show the page for many of the requests, otherwise the test proves nothing.
    assert!(
        shown >= 60,
        "WordPress shows the page for only {shown} requests"
    );
}

fn a_deny_rule_does_not_block_other_pages(stack: &WordPressStack) {
    stack.publish(["not-closed"]);
    for target in [
        "/",
        "/not-closed/",
        "/?s=not-closed",
        "/feed/",
        "/intern/",
        "/?utm_source=internal",
        "/page/2/",
        "/wp-login.php",
        "/wp-includes/css/buttons.min.css",
    ] {
        let response = send(stack, DENIED_CLIENT, &Request::get(target));
        assert_ne!(response.status, 403, "{target}: {}", response.excerpt());
    }
    let fields = [("name", "Ann"), ("action", "nobody")];
    let request = Request::form("/wp-admin/admin-ajax.php", &fields);
    assert_eq!(send(stack, DENIED_CLIENT, &request).status, 400);
}

const URLENCODED: &str = "application/x-www-form-urlencoded";

const PATHS: &[&str] = &[
    "/internal",
    "/internal/",
    "/internal/x",
    "/internal/x/",
    "/INTERNAL/X",
    "/Internal/x/",
    "/internal/X/",
    "/%69nternal/x/",
    "/%49nternal/x/",
    "//internal/x/",
    "/internal//x/",
    "/internal%2Fx/",
    "/internal%2fx",
    "/./internal/x/",
    "/a/../internal/x/",
    "/internal~/x/",
    "/internal./x/",
    "/.internal/x/",
    "/internal+/x/",
    "/internal%20/x/",
    "/-internal-/x/",
    "/internal--/x~/",
    "/%2569nternal/p%61ge/2/",
    "/%2569nternal/x/fe%65d/",
    "/index.php/internal/x",
    "/index.php/internal/x/",
    "/index.php/INTERNAL/x/",
    "/index.php//internal/x/",
    "/index.php/internal",
    "/index.php/%69nternal/x/",
    "/index.php/%2569nternal/x/",
    "/index.php/%2569nternal/x/fe%65d/",
    "/index%2ephp/internal/x/",
    "/wp-blog-header.php/internal/x/",
    "/wp-blog-header.php/INTERNAL/x/",
    "/INTERNAL/x/page/2/",
    "/INTERNAL/x/2/",
    "/INTERNAL/x/feed/",
    "/INTERNAL/x/feed/atom/",
    "/INTERNAL/x/rss2/",
    "/INTERNAL/x/comment-page-1/",
    "/INTERNAL/x/embed/",
    "/INTERNAL/x/plan/",
    "/exact-internal/../INTERNAL",
];

const QUERIES: &[&str] = &[
    "/?pagename=internal/x",
    "/?pagename=internal",
    "/?pagename=internal/x/",
    "/?pagename=/internal/x",
    "/?pagename=internal//x",
    "/?pagename=INTERNAL/X",
    "/?pagename=%69nternal/x",
    "/?pagename=%2569nternal/x",
    "/?pagename=internal%252Fx",
    "/?pagename=internal~/x",
    "/?pagename=internal.%20/x",
    "/?%70agename=internal/x",
    "/?+pagename=internal/x",
    "/?pagename[]=internal/x",
    "/?pagename=y&pagename=internal/x",
    "/?pagename=internal/x&preview=true",
    "/?pagename=internal/x&page=1",
    "/?pagename=internal/x&feed=rss2",
    "/?pagename=internal/x&embed=true",
    "/?pagename=internal/x&cpage=1",
    "/?pagename=internal/x&paged=2",
    "/?utm_source=a&pagename=internal/x",
    "/index.php?pagename=internal/x",
    "/index.php/y/?pagename=internal/x",
    "/no-such-place/?pagename=internal/x",
    "/no/such/place/?pagename=internal/x",
    "/wp-blog-header.php?pagename=internal/x",
    "/?attachment=plan",
    "/?attachment=PLAN&preview=true",
    "/?name=internal",
    "/?name=x&post_type=page",
    "/?rest_route=/wp/v2/pages&slug=x",
    "/?rest_route=%2Fwp%2Fv2%2Fpages&search=internal",
    "/wp-json/wp/v2/pages?slug=x",
    "//wp-json/wp/v2/pages?slug=x",
    "/wp-json//wp/v2/pages?slug=x",
];
