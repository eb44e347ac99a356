//! Pages that add themselves to a list of viewed pages in a cookie are stored, and visitors get their lists.

use galley_testkit::Chromium;
use galley_testkit::client::Response;
use galley_testkit::wait_for;

use super::super::stack::{
    HIT, TIMEOUT, WordPressStack, assert_cache_status, assert_no_text, assert_refetched,
    assert_text,
};
use super::members::{ASSEMBLED, PATH, member, start_with, store, visit};
use super::{PLUGIN, post_id};

/// Posts in place of products, with the cookie and the widget of WooCommerce.
const SHOP: &str = r#"<?php
function viewed_ids() { return array_filter( array_map( 'absint', explode( '|', wp_unslash( $_COOKIE['woocommerce_recently_viewed'] ?? '' ) ) ) ); }
add_action( 'template_redirect', function () {
	if ( is_single() ) {
		setcookie( 'woocommerce_recently_viewed', implode( '|', array_merge( viewed_ids(), array( get_the_ID() ) ) ), 0, '/' );
	}
}, 20 );
class Viewed_Widget extends WP_Widget {
	public function __construct() { parent::__construct( 'woocommerce_recently_viewed_products', 'Viewed' ); }
	public function widget( $args, $instance ) {
		if ( viewed_ids() ) {
			echo $args['before_widget'], '<ul class="viewed">';
			foreach ( array_reverse( viewed_ids() ) as $id ) {
				echo '<li>Viewed: ', esc_html( get_the_title( $id ) ), '</li>';
			}
			echo '</ul>', $args['after_widget'];
		}
	}
}
add_action( 'widgets_init', fn() => register_widget( 'Viewed_Widget' ) );
"#;

fn start() -> WordPressStack {
    let stack = start_with("twentytwentyone", SHOP);
    stack.php(
        "update_option('widget_woocommerce_recently_viewed_products', [2 => [], '_multiwidget' => 1]); $all = wp_get_sidebars_widgets(); \
         $name = current(array_diff(array_keys(array_filter($all)), ['wp_inactive_widgets'])); \
         array_unshift($all[$name], 'woocommerce_recently_viewed_products-2'); wp_set_sidebars_widgets($all);",
    );
    stack
}

fn list_of(ids: &[u64]) -> String {
    let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
    format!(
        "/?galley-viewed=woocommerce_recently_viewed_products-2&galley-ids={}",
        ids.join("-")
    )
}

fn assert_no_cookie(page: &Response) {
    assert!(!page.has("set-cookie"), "{}", page.excerpt());
}

#[test]
fn pages_that_count_themselves_in_a_cookie_are_stored() {
    let stack = &start();
    let [first, second] = stack
        .publish(["viewed-first", "viewed-second"])
        .map(u64::from);
    for path in ["/viewed-first/", "/viewed-second/", PATH] {
        store(stack, path);
        assert_no_cookie(&stack.get(path));
    }
    // A list is stored, and has the tags of what it shows.
    let list = list_of(&[first, second]);
    let page = stack.get(&list);
    let text = page.text();
    let items: Vec<_> = text.match_indices("Viewed: viewed-").collect();
    assert_eq!(items.len(), 2, "{text}");
    assert!(
        text.find("viewed-second") < text.find("viewed-first"),
        "{text}"
    );
    assert_cache_status(&stack.get(&list), HIT);
    stack.php(&format!(
        "wp_update_post(['ID' => {first}, 'post_title' => 'viewed-otherwise']);"
    ));
    let page = stack.get(&list);
    assert_refetched(&page);
    assert_text(&page, "Viewed: viewed-otherwise");

    // A list of anything else is refused.
    let many: Vec<u64> = (1..=16).collect();
    for path in [
        "/?galley-viewed=meta-2&galley-ids=1",
        "/?galley-viewed=woocommerce_recently_viewed_products-3&galley-ids=1",
        &list_of(&many),
    ] {
        assert_eq!(stack.get(path).status, 410, "{path}");
    }
    // Other addresses show what they always show.
    for path in [
        list_of(&[]),
        list_of(&[first, first]),
        format!("{list}&other=1"),
        format!("/about{list}"),
    ] {
        assert_no_text(&stack.get(&path), "class=\"viewed\"");
    }
    // Members get stored pages, too.
    let mut ann = member(stack, "ann");
    wait_for("a stored page with private parts", TIMEOUT, || {
        let page = visit(&mut ann, PATH);
        let is_assembled = page.cache_status() == ASSEMBLED;
        assert!(
            !is_assembled || !page.has("set-cookie"),
            "{}",
            page.excerpt()
        );
        is_assembled
    });
}

#[test]
fn the_script_keeps_the_list_and_shows_it() {
    let stack = &start();
    stack.publish(["viewed-first", "viewed-second"]);
    for path in ["/viewed-first/", "/viewed-second/", "/about/"] {
        store(stack, path);
        assert_no_text(&stack.get(path), "class=\"viewed\"");
    }
    let mut browser =
        Chromium::start_resolving(&stack.scratch.join("chromium"), PLUGIN, stack.addr()).unwrap();
    let mut tab = browser.new_tab().unwrap();
    let ids = ["viewed-first", "viewed-second"].map(|slug| post_id(stack, slug));
    for path in ["viewed-first", "viewed-second", "viewed-first"] {
        tab.navigate(&format!("http://{PLUGIN}/{path}/")).unwrap();
    }
    let cookie = tab.evaluate("decodeURIComponent(document.cookie)").unwrap();
    let expected = format!("woocommerce_recently_viewed={}|{}", ids[1], ids[0]);
    assert!(cookie.to_string().contains(&expected), "{cookie}");
    tab.navigate(&format!("http://{PLUGIN}/about/")).unwrap();
    wait_for("the list", TIMEOUT, || {
        let list = tab
            .evaluate("document.querySelector('.viewed')?.innerText ?? ''")
            .unwrap();
        list.to_string()
            .contains("Viewed: viewed-first\\nViewed: viewed-second")
    });
}
