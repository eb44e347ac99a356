//! Changes that other plugins report through their own actions, with the documented arguments.

use std::fs;

use super::super::stack::{assert_no_text, assert_text};
use super::{ExpectedPurges, assert_hit, post_id, shared_stack};

/// A sitemap of an SEO plugin, read from the database directly, and a plugin that changes WordPress's sitemaps.
const SITEMAPS: &str = r#"<?php
add_action( 'parse_request', function () {
	if ( 0 === strpos( $_SERVER['REQUEST_URI'], '/posts-of-a-plugin.xml' ) ) {
		header( 'Content-Type: text/xml' );
		foreach ( $GLOBALS['wpdb']->get_results( "SELECT post_title FROM {$GLOBALS['wpdb']->posts} WHERE post_status = 'publish'" ) as $post ) {
			echo '<title>', esc_xml( $post->post_title ), '</title>';
		}
		exit;
	}
} );
add_filter( 'wp_sitemaps_posts_entry', fn( $entry, $post ) => $entry + array( 'priority' => strlen( $post->post_title ) / 1000 ), 10, 2 );
"#;

#[test]
fn translations_of_a_saved_post_are_purged() {
    let (stack, _lock) = shared_stack();
    let about = post_id(stack, "about");
    let contact = post_id(stack, "contact");
    let other = ExpectedPurges {
        purged: &["/contact/"],
        unaffected: &["/about/history/"],
    };
    other.check_after(stack, || {
        stack.php(&format!(
            "do_action('pll_save_post', {about}, get_post({about}), array('en' => {about}, 'de' => {contact}));"
        ));
    });
    // WPML returns the translations of a group from a filter, as objects.
    other.check_after(stack, || {
        stack.php(&format!(
            "add_filter('wpml_get_element_translations', function ($none, $group, $type) {{ \
                 return 5 === $group && 'post_page' === $type \
                     ? array('en' => (object) array('element_id' => '{about}'), 'de' => (object) array('element_id' => '{contact}')) : $none; \
             }}, 10, 3); \
             do_action('wpml_after_save_post', {about}, 5, 'en', null);"
        ));
    });
    let none = ExpectedPurges {
        purged: &[],
        unaffected: &["/contact/", "/about/"],
    };
    none.check_after(stack, || {
        stack.php(&format!(
            "do_action('pll_save_post', {about}, null, null); do_action('wpml_after_save_post', {about}, 6, 'en', null);"
        ));
    });
}

#[test]
fn sitemaps_of_plugins_follow_every_edit() {
    let (stack, _lock) = shared_stack();
    let file = stack
        .wordpress
        .root
        .join("wp-content/mu-plugins/sitemaps.php");
    fs::write(&file, SITEMAPS).unwrap();
    let id = stack.publish(["mapped"])[0];
    stack.php("do_action('galley_purge_all');");
    let sitemaps = ExpectedPurges {
        purged: &["/posts-of-a-plugin.xml", "/wp-sitemap-posts-post-1.xml"],
        unaffected: &[],
    };
    let after = sitemaps.check_after(stack, || {
        stack.php(&format!(
            "wp_update_post(['ID' => {id}, 'post_title' => 'Mapped once more']);"
        ));
    });
    fs::remove_file(file).unwrap();
    // Other tests share the site, and nothing purges because of a file.
    stack.php("do_action('galley_purge_all');");
    assert!(
        after[0].text().contains("Mapped once more"),
        "{}",
        after[0].text()
    );
    assert!(
        after[1].text().contains("<priority>0.016</priority>"),
        "{}",
        after[1].text()
    );
}

/// As The SEO Framework's sitemap: PHP sends the header before the page ends, because the plugin has ended all buffers.
#[test]
fn a_page_that_forbids_storing_and_ends_the_buffers_is_not_stored() {
    let (stack, _lock) = shared_stack();
    let file = stack
        .wordpress
        .root
        .join("wp-content/mu-plugins/unbuffered.php");
    fs::write(
        &file,
        "<?php add_action( 'parse_request', function () { \
             if ( false === strpos( $_SERVER['REQUEST_URI'], '/unbuffered' ) ) { return; } \
             if ( false !== strpos( $_SERVER['REQUEST_URI'], 'forbidden' ) ) { define( 'DONOTCACHEPAGE', true ); } \
             while ( ob_get_level() && ob_end_clean() ) { continue; } \
             header( 'Content-Type: text/xml' ); echo '<a>'; flush(); echo '</a>'; exit; } );",
    )
    .unwrap();
    stack.php("do_action('galley_purge_all');");
    for (path, is_stored) in [
        ("/unbuffered.xml", true),
        ("/unbuffered-forbidden.xml", false),
    ] {
        for _ in 0..2 {
            assert_text(&stack.get(path), "<a></a>");
        }
        assert_eq!(stack.get(path).is_hit(), is_stored, "{path}");
    }
    fs::remove_file(file).unwrap();
}

/// Plugins make rewrite rules when their settings change, and WordPress reads them at each request.
#[test]
fn new_rewrite_rules_purge_missing_pages() {
    let (stack, _lock) = shared_stack();
    let file = stack.wordpress.root.join("wp-content/mu-plugins/boats.php");
    stack.php("do_action('galley_purge_all');");
    assert_hit(stack, "/boats/");
    assert_hit(stack, "/about/");
    assert_eq!(stack.get("/boats/").status, 404);
    fs::write(
        &file,
        "<?php add_action('init', function () { register_post_type('boat', array('public' => true, 'label' => 'All boats', 'has_archive' => 'boats')); });",
    )
    .unwrap();
    stack.php("flush_rewrite_rules();");
    assert_text(&stack.get("/boats/"), "All boats");
    assert_hit(stack, "/nowhere/");
    stack.php("flush_rewrite_rules();");
    assert!(stack.get("/nowhere/").is_hit(), "the rules are the same");
    assert!(stack.get("/about/").is_hit());
    fs::remove_file(file).unwrap();
    // A later request makes the rules again.
    stack.php("delete_option('rewrite_rules');");
    assert_no_text(&stack.get("/boats/?again"), "All boats");
    assert!(!stack.get("/nowhere/").is_hit());
}
