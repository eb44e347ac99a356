//! Every way of editing posts, comments, terms and users.

use galley_testkit::client::Request;
use serde_json::json;

use super::super::stack::{assert_no_text, assert_text};
use super::{ExpectedPurges, nonce_in, post_id, rest_api, shared_stack};

const OLD_POST: &str = "/salt-smoke-and-patience/";
const OTHER_POST: &str = "/market-day-in-the-rain/";
const ABOUT: &str = "/about/";

#[test]
fn editing_text_in_the_block_editor_purges_one_post() {
    let (stack, _lock) = shared_stack();
    let id = post_id(stack, "salt-smoke-and-patience");
    let expected = ExpectedPurges {
        purged: &[OLD_POST],
        unaffected: &["/", OTHER_POST, ABOUT, "/feed/", "/nowhere/"],
    };
    let pages = expected.check_after(stack, || {
        let text = stack.php(&format!("echo get_post({id})->post_content;"));
        let text = format!("{text}<!-- wp:paragraph --><p>An added end.</p><!-- /wp:paragraph -->");
        rest_api(
            stack,
            "POST",
            &format!("/wp/v2/posts/{id}"),
            &json!({ "content": text }),
        );
    });
    assert_text(&pages[0], "An added end.");
}

#[test]
fn quick_edit_of_a_title_purges_pages_that_show_it() {
    let (stack, _lock) = shared_stack();
    let id = post_id(stack, "market-day-in-the-rain").to_string();
    let mut admin = stack.admin();
    let nonce = nonce_in(
        &mut admin,
        "/wp-admin/edit.php",
        "name=\"_inline_edit\" value=\"",
    );
    let terms = stack.php(&format!("echo implode(' ', wp_get_post_categories({id}));"));
    let expected = ExpectedPurges {
        purged: &[OTHER_POST, "/wp-json/wp/v2/posts?search=zebra"],
        unaffected: &[ABOUT, "/nowhere/", "/wp-json/wp/v2/pages"],
    };
    let pages = expected.check_after(stack, || {
        let mut fields = vec![
            ("action", "inline-save"),
            ("_inline_edit", &nonce),
            ("post_type", "post"),
            ("post_ID", &id),
            ("post_title", "A zebra on the market"),
            ("post_name", "market-day-in-the-rain"),
            ("_status", "publish"),
            ("post_view", "list"),
            ("screen", "edit-post"),
        ];
        fields.extend(
            terms
                .split_whitespace()
                .map(|term| ("post_category[]", term)),
        );
        let response = admin.post("/wp-admin/admin-ajax.php", &fields).unwrap();
        assert_text(&response.expect_status(200), "A zebra on the market");
    });
    assert_text(&pages[0], "A zebra on the market");
    assert_text(&pages[1], "A zebra on the market");
}

#[test]
fn trashing_posts_in_bulk_purges_pages_and_lists() {
    let (stack, _lock) = shared_stack();
    let ids = stack.publish(["bulk-one", "bulk-two"]);
    let mut admin = stack.admin();
    let expected = ExpectedPurges {
        purged: &[
            "/bulk-one/",
            "/bulk-two/",
            "/",
            "/feed/",
            "/wp-sitemap-posts-post-1.xml",
        ],
        unaffected: &["/wp-json/wp/v2/pages", "/wp-sitemap.xml", "/comments/feed/"],
    };
    let nonce = nonce_in(
        &mut admin,
        "/wp-admin/edit.php",
        "name=\"_wpnonce\" value=\"",
    );
    let pages = expected.check_after(stack, || {
        let target = format!(
            "/wp-admin/edit.php?post_type=post&_wpnonce={nonce}&action=trash&post%5B%5D={}&post%5B%5D={}",
            ids[0], ids[1]
        );
        let _ = admin.get(&target).unwrap().expect_status(302);
    });
    assert_eq!((pages[0].status, pages[1].status), (404, 404));
    assert_no_text(&pages[2], "bulk-one");
}

#[test]
fn publishing_over_xmlrpc_purges_the_404_page_and_lists() {
    let (stack, _lock) = shared_stack();
    let expected = ExpectedPurges {
        purged: &["/by-xml-rpc/", "/", "/feed/"],
        unaffected: &["/comments/feed/", "/wp-json/wp/v2/pages"],
    };
    let pages = expected.check_after(stack, || {
        let member = |name: &str, value: &str| {
            format!("<member><name>{name}</name><value><string>{value}</string></value></member>")
        };
        let members = [
            member("post_title", "By XML-RPC"),
            member("post_name", "by-xml-rpc"),
            member("post_status", "publish"),
            member("post_content", "Sent by a program."),
        ];
        let call = format!(
            "<?xml version=\"1.0\"?><methodCall><methodName>wp.newPost</methodName><params>\
             <param><value><int>1</int></value></param><param><value><string>{}</string></value></param>\
             <param><value><string>{}</string></value></param><param><value><struct>{}</struct></value></param></params></methodCall>",
            stack.wordpress.user,
            stack.wordpress.password,
            members.concat()
        );
        let response = stack.send(Request::post("/xmlrpc.php", "text/xml", call)).expect_status(200);
        assert_no_text(&response, "fault");
    });
    assert_text(&pages[0], "Sent by a program.");
    assert_text(&pages[1], "By XML-RPC");
}

#[test]
fn publishing_a_scheduled_post_purges_the_404_page_and_lists() {
    let (stack, _lock) = shared_stack();
    stack.php(
        "global $wpdb; $id = wp_insert_post(['post_title' => 'Right on time', 'post_name' => 'right-on-time', 'post_content' => 'x', \
         'post_status' => 'future', 'post_date' => gmdate('Y-m-d H:i:s', time() + 3600), 'post_author' => 1]); \
         wp_clear_scheduled_hook('publish_future_post', [$id]); $past = gmdate('Y-m-d H:i:s', time() - 5); \
         $wpdb->update($wpdb->posts, ['post_date' => $past, 'post_date_gmt' => $past], ['ID' => $id]); \
         wp_schedule_single_event(time() - 5, 'publish_future_post', [$id]);",
    );
    let expected = ExpectedPurges {
        purged: &["/right-on-time/", "/"],
        unaffected: &["/comments/feed/", "/wp-json/wp/v2/pages"],
    };
    let pages = expected.check_after(stack, || {
        let _ = stack.get("/wp-cron.php?doing_wp_cron").expect_status(200);
        // wp-cron.php sends its response before it publishes the post.
        galley_testkit::wait_for("cron to publish", super::super::stack::TIMEOUT, || {
            stack.php("$found = get_posts(['name' => 'right-on-time']); echo count($found);").trim() == "1"
                && stack.php("global $wpdb; echo $wpdb->get_var(\"SELECT COUNT(*) FROM $wpdb->options WHERE option_name LIKE 'galley\\\\_pending\\\\_%'\");").trim() == "0"
        });
    });
    assert_eq!(pages[0].status, 200);
    assert_text(&pages[1], "Right on time");
}

#[test]
fn a_post_that_one_request_publishes_and_deletes_is_purged_from_pages() {
    let (stack, _lock) = shared_stack();
    for (day, end) in [
        (5, "wp_delete_post($id, true);"),
        (6, "wp_trash_post($id);"),
        (
            7,
            "wp_update_post(['ID' => $id, 'post_status' => 'draft']);",
        ),
    ] {
        let archive = format!("/1999/12/0{day}/");
        let generated = stack.php(&format!(
            "$id = wp_insert_post(['post_title' => 'For a moment', 'post_content' => 'x', 'post_status' => 'publish', \
             'post_date' => '1999-12-0{day} 12:00:00', 'post_author' => 1]); \
             $context = stream_context_create(['http' => ['header' => 'Host: {}']]); \
             echo file_get_contents('http://{}{archive}', false, $context); {end}",
            stack.host,
            stack.addr(),
        ));
        assert!(generated.contains("For a moment"), "{generated}");
        let page = stack.get(&archive);
        assert!(!page.is_hit(), "{end}");
        assert_no_text(&page, "For a moment");
    }
}

#[test]
fn changes_from_the_command_line_purge_pages() {
    let (stack, _lock) = shared_stack();
    let id = post_id(stack, "salt-smoke-and-patience");
    let expected = ExpectedPurges {
        purged: &[OLD_POST],
        unaffected: &["/", OTHER_POST, ABOUT],
    };
    let pages = expected.check_after(stack, || {
        stack.update_post(u32::try_from(id).unwrap(), "Written by a program.");
    });
    assert_text(&pages[0], "Written by a program.");
}

#[test]
fn only_changes_of_visible_comments_purge_their_post() {
    let (stack, _lock) = shared_stack();
    let id = post_id(stack, "market-day-in-the-rain");
    let insert = |approved: u8| {
        stack
            .php(&format!(
                "echo wp_insert_comment(['comment_post_ID' => {id}, 'comment_author' => 'Nadia', 'comment_content' => 'Held back.', \
                 'comment_approved' => {approved}, 'comment_date' => '2001-01-01 00:00:00', 'comment_date_gmt' => '2001-01-01 00:00:00']);"
            ))
            .trim()
            .to_owned()
    };
    let mut comment = String::new();
    let pending = ExpectedPurges {
        purged: &[],
        unaffected: &[OTHER_POST, OLD_POST, "/", "/comments/feed/"],
    };
    pending.check_after(stack, || comment = insert(0));
    let shown = ExpectedPurges {
        purged: &[OTHER_POST],
        unaffected: &[OLD_POST, ABOUT, "/comments/feed/"],
    };
    let pages = shown.check_after(stack, || {
        rest_api(
            stack,
            "POST",
            &format!("/wp/v2/comments/{comment}"),
            &json!({ "status": "approved" }),
        );
    });
    assert_text(&pages[0], "Held back.");
    let pages = shown.check_after(stack, || {
        rest_api(
            stack,
            "POST",
            &format!("/wp/v2/comments/{comment}"),
            &json!({ "content": "Edited comment." }),
        );
    });
    assert_text(&pages[0], "Edited comment.");
    let pages = shown.check_after(stack, || {
        rest_api(
            stack,
            "POST",
            &format!("/wp/v2/comments/{comment}"),
            &json!({ "status": "spam" }),
        );
    });
    assert_no_text(&pages[0], "Edited comment.");
}

#[test]
fn renaming_a_category_purges_pages_that_show_it() {
    let (stack, _lock) = shared_stack();
    let term = stack.php("echo wp_insert_term('Weather', 'category')['term_id'];");
    let [id] = stack.publish(["under-weather"]);
    stack.php(&format!("wp_set_post_categories({id}, [{}]);", term.trim()));
    let expected = ExpectedPurges {
        purged: &["/category/weather/", "/under-weather/"],
        unaffected: &["/wp-json/wp/v2/pages", "/wp-sitemap-posts-post-1.xml"],
    };
    let pages = expected.check_after(stack, || {
        rest_api(
            stack,
            "POST",
            &format!("/wp/v2/categories/{}", term.trim()),
            &json!({ "name": "Wind and rain" }),
        );
    });
    assert_text(&pages[0], "Wind and rain");
    assert_text(&pages[1], "Wind and rain");
    // Only the archive shows the description.
    let expected = ExpectedPurges {
        purged: &["/category/weather/"],
        unaffected: &["/under-weather/", "/", OLD_POST],
    };
    expected.check_after(stack, || {
        rest_api(
            stack,
            "POST",
            &format!("/wp/v2/categories/{}", term.trim()),
            &json!({ "description": "All about it." }),
        );
    });
}

#[test]
fn renaming_a_user_purges_pages_that_show_the_name() {
    let (stack, _lock) = shared_stack();
    let author = stack.php("echo get_user_by('slug', 'ines')->ID;");
    let expected = ExpectedPurges {
        purged: &["/author/ines/"],
        unaffected: &[ABOUT, "/nowhere/"],
    };
    let pages = expected.check_after(stack, || {
        rest_api(
            stack,
            "POST",
            &format!("/wp/v2/users/{}", author.trim()),
            &json!({ "name": "Ines Written Anew" }),
        );
    });
    assert_text(&pages[0], "Ines Written Anew");
}

#[test]
fn drafts_and_autosaves_purge_nothing() {
    let (stack, _lock) = shared_stack();
    let id = post_id(stack, "salt-smoke-and-patience");
    let expected = ExpectedPurges {
        purged: &[],
        unaffected: &[
            "/",
            OLD_POST,
            "/feed/",
            "/wp-sitemap-posts-post-1.xml",
            "/nowhere/",
        ],
    };
    expected.check_after(stack, || {
        let draft = rest_api(
            stack,
            "POST",
            "/wp/v2/posts",
            &json!({ "title": "A draft", "status": "draft", "content": "x" }),
        );
        rest_api(
            stack,
            "POST",
            &format!("/wp/v2/posts/{}", draft["id"]),
            &json!({ "content": "y" }),
        );
        rest_api(
            stack,
            "POST",
            &format!("/wp/v2/posts/{id}/autosaves"),
            &json!({ "content": "Not yet." }),
        );
    });
}
