//! Stored pages for logged-in users: Galley inserts their toolbar and comment form into the page that is stored for all.

use std::fs;
use std::process::Command;

use galley_testkit::client::{Browser, Response};
use galley_testkit::wait_for;
use serde_json::json;

use super::super::stack::{
    HOUR, StackOptions, TIMEOUT, UpstreamKind, WordPressStack, assert_cache_status, assert_no_text,
    assert_text, text_between,
};
use super::tags_and_lifetimes::why_report;
use super::{PLUGIN, TOKEN, install, post_id, rest_api};

pub const ASSEMBLED: &str = "galley; hit; detail=assembled";
const COMPARED: &str = "galley; fwd=bypass; detail=compared";
pub const PATH: &str = "/salt-smoke-and-patience/";

/// Counts the pages that PHP generates for each path. Requests for fragments are not counted, because they are sent in the background.
const COUNT: &str = r"<?php
if ( PHP_SAPI !== 'cli' && ! isset( $_SERVER['HTTP_GALLEY_FRAGMENT'] ) ) {
	$path = explode( '?', $_SERVER['REQUEST_URI'] )[0];
	file_put_contents( dirname( ABSPATH ) . '/notes/count' . strtr( $path, '/', '_' ), '.', FILE_APPEND );
	add_filter( 'comment_flood_filter', '__return_false', 99 );
}
";

/// Starts a stack with a theme.
pub fn start(theme: &str) -> WordPressStack {
    start_with(theme, "<?php")
}

/// Starts a stack with a theme and an additional must-use plugin.
pub fn start_with(theme: &str, code: &str) -> WordPressStack {
    let members = format!("members = \"fragments\"\n{HOUR}");
    let mut options = StackOptions::new([(PLUGIN, members)]);
    options.admin_token = Some(TOKEN);
    options.wordpress.mu_plugins = vec![
        ("count.php".to_owned(), COUNT.to_owned()),
        ("own.php".to_owned(), code.to_owned()),
    ];
    let stack = WordPressStack::start(UpstreamKind::Fpm, &options);
    install(&stack);
    let password = &stack.wordpress.password;
    stack.php(&format!(
        "switch_theme('{theme}'); foreach (['ann', 'bob'] as $name) {{ wp_insert_user(['user_login' => $name, 'user_pass' => '{password}', \
         'user_email' => $name . '@example.org', 'display_name' => 'Dear ' . $name, 'role' => 'subscriber']); }}"
    ));
    stack
}

/// Returns a browser of a logged-in user.
pub fn member(stack: &WordPressStack, name: &str) -> Browser {
    let mut browser = stack.visitor();
    browser.login(name, &stack.wordpress.password).unwrap();
    browser
}

pub fn visit(browser: &mut Browser, path: &str) -> Response {
    browser.get(path).unwrap().expect_status(200)
}

fn page_count(stack: &WordPressStack, path: &str) -> usize {
    let note = stack
        .scratch
        .join("notes")
        .join(format!("count{}", path.replace('/', "_")));
    fs::read(note).map_or(0, |text| text.len())
}

/// Requests a page until it is stored.
pub fn store(stack: &WordPressStack, path: &str) {
    wait_for("the page to be stored", TIMEOUT, || {
        stack.get(path).is_hit()
    });
}

/// Asserts that no shared cache may store the page and that it has no validators.
fn assert_private(page: &Response) {
    assert_eq!(
        page.field("cache-control"),
        Some("private, no-store"),
        "{}",
        page.excerpt()
    );
    for name in ["etag", "last-modified", "expires", "age"] {
        assert!(!page.has(name), "{name}: {}", page.excerpt());
    }
    for (name, _) in &page.fields {
        assert!(
            !name.to_ascii_lowercase().starts_with("galley-"),
            "{}",
            page.excerpt()
        );
    }
}

#[test]
fn logged_in_users_get_private_fragments_in_stored_pages() {
    for theme in ["twentytwentyone", "twentytwentythree"] {
        let stack = &start(theme);
        store(stack, PATH);
        store(stack, "/");
        let public = stack.get(PATH);
        assert_no_text(&public, "wpadminbar");
        assert_no_text(&public, "<!--galley-");
        let (mut ann, mut bob) = (member(stack, "ann"), member(stack, "bob"));
        let before = page_count(stack, PATH);
        let first = visit(&mut ann, PATH);
        assert_cache_status(&first, COMPARED);
        assert_private(&first);
        let again = visit(&mut ann, PATH);
        assert_cache_status(&again, ASSEMBLED);
        assert_private(&again);
        assert_text(&again, "Dear ann");
        assert_text(&again, "id=\"wpadminbar\"");
        assert_text(&again, "Logged in as Dear ann");
        assert_eq!(again.text(), first.text(), "{theme}");
        assert_eq!(page_count(stack, PATH), before + 1, "{theme}");

        // Only pages with a comment form are generated once per user.
        let page = visit(&mut bob, PATH);
        assert_no_text(&page, "Dear ann");
        assert_text(&page, "Dear bob");
        assert_cache_status(&visit(&mut bob, PATH), ASSEMBLED);
        assert_eq!(page_count(stack, PATH), before + 2, "{theme}");
        assert_cache_status(&visit(&mut ann, "/"), COMPARED);
        let generated = page_count(stack, "/");
        let page = visit(&mut bob, "/");
        assert_cache_status(&page, ASSEMBLED);
        assert_text(&page, "Dear bob");
        assert_no_text(&page, "Dear ann");
        assert_private(&page);
        assert_eq!(page_count(stack, "/"), generated, "{theme}");

        for path in ["/", PATH] {
            let anonymous = stack.get(path);
            assert!(anonymous.is_hit(), "{}", anonymous.excerpt());
            assert_no_text(&anonymous, "Dear");
            assert_no_text(&anonymous, "wpadminbar");
            assert!(anonymous.has("etag"), "{}", anonymous.excerpt());
        }
    }
}

#[test]
fn purges_and_logout_invalidate_private_fragments() {
    let stack = &start("twentytwentyone");
    store(stack, PATH);
    let mut ann = member(stack, "ann");
    visit(&mut ann, PATH);
    assert_cache_status(&visit(&mut ann, PATH), ASSEMBLED);

    // After an edit, all further responses contain the new text.
    let id = post_id(stack, "salt-smoke-and-patience");
    let text = "Salted once more";
    rest_api(
        stack,
        "POST",
        &format!("/wp/v2/posts/{id}"),
        &json!({ "content": text }),
    );
    assert_text(&visit(&mut ann, PATH), text);
    wait_for("the page to be stored", TIMEOUT, || {
        let page = visit(&mut ann, PATH);
        assert_text(&page, text);
        page.cache_status() == ASSEMBLED
    });

    // A new display name.
    stack.php(
        "wp_update_user(['ID' => get_user_by('login', 'ann')->ID, 'display_name' => 'Annabel']);",
    );
    let page = visit(&mut ann, PATH);
    assert_text(&page, "Annabel");
    assert_no_text(&page, "Dear ann");

    // A pending comment that only its author sees.
    stack.php("update_option('comment_moderation', '1');");
    store(stack, PATH);
    let (mut bob, id) = (member(stack, "bob"), id.to_string());
    let comment = "This awaits approval";
    let form = [
        ("comment_post_ID", id.as_str()),
        ("comment", comment),
        ("comment_parent", "0"),
    ];
    let response = ann.post("/wp-comments-post.php", &form).unwrap();
    assert_eq!(response.status, 302, "{}", response.excerpt());
    for _ in 0..3 {
        assert_text(&visit(&mut ann, PATH), comment);
        assert_no_text(&visit(&mut bob, PATH), comment);
        assert_no_text(&stack.get(PATH), comment);
    }
    assert_cache_status(&visit(&mut bob, PATH), ASSEMBLED);

    // After a logout, the old cookies give access to no private fragment.
    let mut stolen = stack.visitor();
    stolen.jar = ann.jar.clone();
    store(stack, "/");
    wait_for("the front page to be assembled", TIMEOUT, || {
        visit(&mut ann, "/").cache_status() == ASSEMBLED
    });
    let page = visit(&mut ann, "/").text();
    let nonce = text_between(&page, "action=logout&#038;_wpnonce=", "'");
    let logout = ann
        .get(&format!("/wp-login.php?action=logout&_wpnonce={nonce}"))
        .unwrap();
    assert_eq!(logout.status, 302, "{}", logout.excerpt());
    for path in ["/", PATH] {
        let page = visit(&mut stolen, path);
        assert_no_text(&page, "Annabel");
        assert_no_text(&page, "wpadminbar");
        assert_no_text(&visit(&mut ann, path), "Annabel");
    }
}

#[test]
fn themes_mark_private_parts_and_unmarked_differences_are_detected() {
    let plugin = r"<?php
function my_greeting() { echo '<p>Hello ' . esc_html( wp_get_current_user()->display_name ) . '</p>'; }
add_action( 'wp_footer', function () { galley_private( 'greeting', 'my_greeting', 'session' ); } );
add_action( 'wp_footer', function () { echo '<p data-nonce=' . wp_create_nonce( 'my-action' ) . '></p>'; } );
";
    let stack = &start_with("twentytwentyone", plugin);
    store(stack, PATH);
    let (mut ann, mut editor) = (member(stack, "ann"), stack.editor());
    let generated = visit(&mut ann, PATH);
    let assembled = visit(&mut ann, PATH);
    assert_cache_status(&assembled, ASSEMBLED);
    assert_text(&assembled, "<p>Hello Dear ann</p>");
    let nonce = |page: &Response| text_between(&page.text(), "data-nonce=", ">").to_owned();
    assert_eq!(nonce(&assembled), nonce(&generated));
    assert_ne!(nonce(&assembled), nonce(&stack.get(PATH)));

    // Editors get edit links in each post, which the theme does not mark as private.
    assert_text(&visit(&mut editor, PATH), "action=edit");
    let page = visit(&mut editor, PATH);
    assert_cache_status(&page, "galley; fwd=bypass; detail=differs");
    assert_text(&page, "action=edit");
    let cookie = editor.jar.field(PATH).unwrap();
    let url = format!("http://{PLUGIN}{PATH}");
    let token = stack.scratch.join("admin.token");
    let (admin, token) = (stack.galley.admin().unwrap(), token.to_str().unwrap());
    let header = format!("Cookie: {cookie}");
    let arguments = [
        "why",
        &url,
        "-H",
        &header,
        "--admin",
        &admin,
        "--token-file",
        token,
    ];
    let mut why = Command::new(env!("CARGO_BIN_EXE_galley"));
    let why = why.args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&why.stdout);
    assert!(
        text.contains("is another: from byte"),
        "{text}{}",
        String::from_utf8_lossy(&why.stderr)
    );
    assert!(!text.contains("action=edit"), "{text}");
    // Users with other capabilities are not affected.
    assert_cache_status(&visit(&mut ann, PATH), ASSEMBLED);
}

/// The widget of the cart of WooCommerce, and the identifier of its field for the quantity.
const SHOP: &str = r#"<?php
class Cart_Widget extends WP_Widget {
	public function __construct() { parent::__construct( 'woocommerce_widget_cart', 'Cart' ); }
	public function widget( $args, $instance ) { echo $args['before_widget'], '<div class="cart"></div>', $args['after_widget']; }
}
add_action( 'widgets_init', fn() => register_widget( 'Cart_Widget' ) );
add_filter( 'the_content', function ( $text ) {
	$id = uniqid( 'quantity_' );
	return "$text<label for=\"$id\">Quantity</label><input id=\"$id\" name=\"quantity\">";
} );
"#;

#[test]
fn private_widgets_and_random_identifiers_do_not_make_pages_differ() {
    let stack = &start_with("twentytwentyone", SHOP);
    stack.php(
        "update_option('widget_meta', [2 => ['title' => 'Meta'], '_multiwidget' => 1]); \
         update_option('widget_woocommerce_widget_cart', [2 => [], '_multiwidget' => 1]); \
         $all = wp_get_sidebars_widgets(); $names = array_keys(array_filter($all)); \
         $name = current(array_diff($names, ['wp_inactive_widgets'])); \
         array_unshift($all[$name], 'meta-2', 'woocommerce_widget_cart-2'); wp_set_sidebars_widgets($all);",
    );
    store(stack, PATH);
    let public = stack.get(PATH);
    assert_text(&public, "class=\"cart\"");
    let entry = &why_report(stack, PATH)["entry"];
    let tags = entry["tags"].as_array().unwrap();
    assert!(!tags.contains(&json!("*")), "{entry}");
    for label in ["widget/meta-2", "widget/woocommerce_widget_cart-2"] {
        assert!(entry["fragments"].to_string().contains(label), "{entry}");
    }
    let mut ann = member(stack, "ann");
    assert_cache_status(&visit(&mut ann, PATH), COMPARED);
    let page = visit(&mut ann, PATH);
    assert_cache_status(&page, ASSEMBLED);
    let text = page.text();
    let meta = text_between(&text, "widget_meta", "</section>");
    assert!(meta.contains("action=logout"), "{meta}");
    // Label and field are those of the stored page.
    let identifier =
        |page: &Response| text_between(&page.text(), "for=\"quantity_", "\"").to_owned();
    assert_eq!(identifier(&page), identifier(&public));
}

/// A plugin with an item in the toolbar, whose styles only visitors with the toolbar get.
const BADGE: &str = r"<?php
class Badge_Admin_Bar {
	public function print_style() { if ( is_admin_bar_showing() ) { echo '<style>#badge{color:red}</style>'; } }
}
add_action( 'wp_head', array( new Badge_Admin_Bar(), 'print_style' ) );
add_action( 'wp_enqueue_scripts', function () {
	if ( is_admin_bar_showing() ) {
		wp_enqueue_style( 'badge', '/badge.css', array( 'admin-bar' ) );
		wp_enqueue_script( 'badge', '/badge.js', array( 'admin-bar' ) );
	}
} );
";

#[test]
fn administrators_get_stored_pages_with_their_toolbar() {
    let stack = &start_with("twentytwentythree", BADGE);
    // Administrators see private posts in lists, and links to edit comments below posts.
    for path in ["/about/", "/contact/"] {
        store(stack, path);
        let public = stack.get(path);
        assert_no_text(&public, "badge");
        assert_no_text(&public, "galley-bar");
        let mut admin = stack.admin();
        let first = visit(&mut admin, path);
        assert_cache_status(&first, COMPARED);
        let page = visit(&mut admin, path);
        assert_eq!(page.cache_status(), ASSEMBLED, "{path}");
        assert_eq!(page.text(), first.text(), "{path}");
        for part in [
            "wp-admin-bar-galley",
            "bar.js",
            "badge.css",
            "badge.js",
            "#badge{",
        ] {
            assert_text(&page, part);
        }
    }
}
