//! All known routes on which WordPress discloses login names, and that `hide_authors` removes the names from each.

use galley_testkit::client::{Request, Response};

use crate::support::AssertStatus;

use super::stack::{BASELINE_HOST, HIDE_AUTHORS_HOST, WordPressStack};

test_with_shared_stacks! { hide_authors_removes_login_names_from_all_routes }

/// The login name, which WordPress also uses in author URLs. The display name differs.
const LOGIN: &str = "zorblax";

/// Creates an author with one post, and returns the IDs of both.
fn publish(stack: &WordPressStack) -> (u32, u32) {
    let output = stack.php(&format!(
        "$user = wp_insert_user(['user_login' => '{LOGIN}', 'user_pass' => wp_generate_password(), \
         'display_name' => 'Ann Author', 'nickname' => 'Ann', 'role' => 'author', 'user_email' => 'ann@wp.test']); \
         $post = wp_insert_post(['post_name' => 'by-ann', 'post_title' => 'by-ann', 'post_content' => 'Text', \
         'post_status' => 'publish', 'post_author' => $user]); echo \"$user $post\";"
    ));
    let (user, post) = output.trim().split_once(' ').unwrap();
    (user.parse().unwrap(), post.parse().unwrap())
}

fn discloses_login(response: &Response) -> bool {
    let head = String::from_utf8_lossy(&response.raw).into_owned();
    response.text().contains(LOGIN) || head.contains(LOGIN)
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

fn hide_authors_removes_login_names_from_all_routes(stack: &WordPressStack) {
    let (user, post) = publish(stack);
    let (mut disclosing, mut baseline) = (Vec::new(), 0);
    for request in routes(user, post) {
        let send = |host: &str| {
            let mut request = request.clone();
            request.target = request.target.replace("SITE", host);
            stack.send(request.host(host))
        };
        baseline += usize::from(discloses_login(&send(BASELINE_HOST)));
        let response = send(HIDE_AUTHORS_HOST);
        if discloses_login(&response) {
            disclosing.push(format!(
                "{} {}: {}",
                request.method, request.target, response.status
            ));
        }
    }
    assert!(
        disclosing.is_empty(),
        "the login name is disclosed by\n{}",
        disclosing.join("\n")
    );
    // Without the option, WordPress discloses the name on many of these routes.
    assert!(
        baseline >= 15,
        "without hide_authors only {baseline} routes disclose the login name"
    );
    // Display names and author archives are not affected.
    let feed = stack
        .get_from(HIDE_AUTHORS_HOST, "/feed/")
        .expect_status(200);
    assert!(feed.text().contains("Ann Author"));
    stack
        .get_from(HIDE_AUTHORS_HOST, &format!("/author/{LOGIN}/"))
        .assert_status(200);
    let posts = "/wp-json/wp/v2/posts?_embed=wp:term";
    stack.get_from(HIDE_AUTHORS_HOST, posts).assert_status(200);
    stack
        .get_from(HIDE_AUTHORS_HOST, "/?sitemap=index")
        .assert_status(301);
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
