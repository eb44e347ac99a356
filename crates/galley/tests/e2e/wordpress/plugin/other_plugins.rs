//! Changes that other plugins announce by actions of their own, with the arguments that they document.

use super::{Around, id_of, turn};

#[test]
fn options_pages_of_advanced_custom_fields_change_all_pages() {
    let (stack, _turn) = turn();
    stack.php("do_action('galley_purge_all');");
    let all = Around {
        changed: &["/about/", "/contact/", "/feed/"],
        kept: &[],
    };
    all.edit(stack, || {
        stack.php("do_action('acf/save_post', 'options');");
    });
    let none = Around {
        changed: &[],
        kept: &["/about/", "/contact/"],
    };
    none.edit(stack, || {
        stack.php(
            "foreach (array(1, '1', 'user_1', 'category_1', 'widget_text-2') as $id) { do_action('acf/save_post', $id); }",
        );
    });
}

#[test]
fn translations_of_a_post_are_fetched_again() {
    let (stack, _turn) = turn();
    let about = id_of(stack, "about");
    let contact = id_of(stack, "contact");
    let other = Around {
        changed: &["/contact/"],
        kept: &["/about/history/"],
    };
    other.edit(stack, || {
        stack.php(&format!(
            "do_action('pll_save_post', {about}, get_post({about}), array('en' => {about}, 'de' => {contact}));"
        ));
    });
    // WPML gives the translations of a group by a filter, as objects.
    other.edit(stack, || {
        stack.php(&format!(
            "add_filter('wpml_get_element_translations', function ($none, $group, $type) {{ \
                 return 5 === $group && 'post_page' === $type \
                     ? array('en' => (object) array('element_id' => '{about}'), 'de' => (object) array('element_id' => '{contact}')) : $none; \
             }}, 10, 3); \
             do_action('wpml_after_save_post', {about}, 5, 'en', null);"
        ));
    });
    let none = Around {
        changed: &[],
        kept: &["/contact/", "/about/"],
    };
    none.edit(stack, || {
        stack.php(&format!(
            "do_action('pll_save_post', {about}, null, null); do_action('wpml_after_save_post', {about}, 6, 'en', null);"
        ));
    });
}
