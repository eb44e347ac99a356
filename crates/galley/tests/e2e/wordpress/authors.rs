//! Where WordPress tells the login names of its users, and that `hide_authors` keeps each of these routes from strangers.

use galley_testkit::client::{Request, Response};

use crate::support::AssertStatus;

use super::stack::{LOUD, QUIET, Stack};

both! { no_route_tells_a_login_name }

/// The login name, which is also the author's part of addresses. What is displayed is another name.
const LOGIN: &str = "zorblax";

/// An author with one post; their ids.
fn publish(stack: &Stack) -> (u32, u32) {
    let said = stack.php(&format!(
        "$user = wp_insert_user(['user_login' => '{LOGIN}', 'user_pass' => wp_generate_password(), \
         'display_name' => 'Ann Author', 'nickname' => 'Ann', 'role' => 'author', 'user_email' => 'ann@wp.test']); \
         $post = wp_insert_post(['post_name' => 'by-ann', 'post_title' => 'by-ann', 'post_content' => 'Text', \
         'post_status' => 'publish', 'post_author' => $user]); echo \"$user $post\";"
    ));
    let (user, post) = said.trim().split_once(' ').unwrap();
    (user.parse().unwrap(), post.parse().unwrap())
}

fn tells(answer: &Response) -> bool {
    let head = String::from_utf8_lossy(&answer.raw).into_owned();
    answer.text().contains(LOGIN) || head.contains(LOGIN)
}

fn routes(user: u32, post: u32) -> Vec<Request> {
    let page = "http%3A%2F%2FSITE%2Fby-ann%2F";
    let paths = ROUTES
        .iter()
        .map(|route| {
            route
                .replace("USER", &user.to_string())
                .replace("POST", &post.to_string())
        })
        .map(|route| Request::get(&route.replace("PAGE", page)));
    let id = user.to_string();
    let forms = [
        Request::form("/", &[("author", id.as_str())]),
        Request::form("/", &[("sitemap", "users")]),
        Request::form("/?_method=GET", &[("rest_route", "/wp/v2/users")]),
        Request::form("/", &[("rest_route", "/wp/v2/users")])
            .field("X-HTTP-Method-Override", "GET"),
        Request::form("/wp-admin/zzz.php", &[("author", id.as_str())]),
    ];
    paths.chain(forms).collect()
}

fn no_route_tells_a_login_name(stack: &Stack) {
    let (user, post) = publish(stack);
    let (mut open, mut told) = (Vec::new(), 0);
    for request in routes(user, post) {
        let of = |host: &str| {
            let mut request = request.clone();
            request.target = request.target.replace("SITE", host);
            stack.send(request.host(host))
        };
        told += usize::from(tells(&of(LOUD)));
        let answer = of(QUIET);
        if tells(&answer) {
            open.push(format!(
                "{} {}: {}",
                request.method, request.target, answer.status
            ));
        }
    }
    assert!(open.is_empty(), "told by\n{}", open.join("\n"));
    // Without the option WordPress tells it by many of them.
    assert!(told >= 15, "WordPress tells it by {told} only");
    // What is written on pages stays.
    let feed = stack.get_from(QUIET, "/feed/").expect_status(200);
    assert!(feed.text().contains("Ann Author"));
    stack
        .get_from(QUIET, &format!("/author/{LOGIN}/"))
        .assert_status(200);
    let posts = "/wp-json/wp/v2/posts?_embed=wp:term";
    stack.get_from(QUIET, posts).assert_status(200);
    stack.get_from(QUIET, "/?sitemap=index").assert_status(301);
}

const ROUTES: &[&str] = &[
    "/?author=USER",
    "/?author=USER&feed=rss2",
    "/index.php?author=USER",
    "/by-ann/?author=USER",
    "/wp-admin/zzz.php?author=USER",
    "/x/wp-json/y?author=USER",
    "/wp-sitemap-users-1.xml",
    "/index.php/wp-sitemap-users-1.xml",
    "/?sitemap=users",
    "/?sitemap=users&paged=1",
    "/?sitemap=%20users",
    "/?sitemap=us%3Cb%3Eers",
    "/wp-json/wp/v2/users",
    "/wp-json/wp/v2/users?_fields=slug",
    "/wp-json/wp/v2/users?context=embed",
    "/wp-json/wp/v2/users/USER",
    "/wp-json/WP/v2/Users/USER",
    "/index.php/wp-json/wp/v2/users",
    "/?rest_route=/wp/v2/users",
    "/?rest.route=/wp/v2/users/USER",
    "/wp-json/wp/v2/posts",
    "/wp-json/wp/v2/posts/POST",
    "/wp-json/wp/v2/posts/POST?_embed",
    "/wp-json/wp/v2/posts/POST?_embed=1",
    "/wp-json/wp/v2/posts/POST?_embed=author",
    "/wp-json/wp/v2/posts/POST?_embed=wp:term,author",
    "/wp-json/wp/v2/posts/POST?_embed[]=author",
    "/wp-json/wp/v2/posts/POST?_embed=author&_fields=_embedded,_links",
    "/wp-json/wp/v2/posts?_embed&author=USER",
    "/wp-json/wp/v2/search?search=ann&_embed",
    "/?rest_route=/wp/v2/posts/POST&_embed",
    "/wp-json/wp/v2/comments",
    "/wp-json/wp/v2/comments?_embed",
    "/wp-json/",
    "/wp-json/oembed/1.0/embed?url=PAGE",
    "/wp-json/oembed/1.0/embed?url=PAGE&format=xml",
    "/?rest_route=/oembed/1.0/embed&url=PAGE",
    "/feed/",
    "/feed/atom/",
    "/feed/rdf/",
    "/?feed=rss2",
    "/comments/feed/",
    "/by-ann/feed/",
    "/by-ann/embed/",
    "/wp-sitemap.xml",
    "/?s=ann",
    "/xmlrpc.php?rsd",
];
