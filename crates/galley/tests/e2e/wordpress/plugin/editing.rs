//! Editing posts, comments, terms and users in every way there is.

use galley_testkit::client::Request;
use serde_json::json;

use super::super::stack::{assert_no_text, assert_text};
use super::{Around, id_of, nonce_in, rest, turn};

const OLD: &str = "/salt-smoke-and-patience/";
const OTHER: &str = "/market-day-in-the-rain/";
const ABOUT: &str = "/about/";

#[test]
fn the_block_editor_changes_the_text_of_one_post() {
    let (stack, _turn) = turn();
    let id = id_of(stack, "salt-smoke-and-patience");
    let around = Around {
        changed: &[OLD],
        kept: &["/", OTHER, ABOUT, "/feed/", "/nowhere/"],
    };
    let pages = around.edit(stack, || {
        let text = stack.php(&format!("echo get_post({id})->post_content;"));
        let text = format!("{text}<!-- wp:paragraph --><p>An added end.</p><!-- /wp:paragraph -->");
        rest(
            stack,
            "POST",
            &format!("/wp/v2/posts/{id}"),
            &json!({ "content": text }),
        );
    });
    assert_text(&pages[0], "An added end.");
}

#[test]
fn quick_edit_changes_a_title_wherever_it_stands() {
    let (stack, _turn) = turn();
    let id = id_of(stack, "market-day-in-the-rain").to_string();
    let mut admin = stack.admin();
    let nonce = nonce_in(
        &mut admin,
        "/wp-admin/edit.php",
        "name=\"_inline_edit\" value=\"",
    );
    let terms = stack.php(&format!("echo implode(' ', wp_get_post_categories({id}));"));
    let around = Around {
        changed: &[OTHER, "/wp-json/wp/v2/posts?search=zebra"],
        kept: &[ABOUT, "/nowhere/", "/wp-json/wp/v2/pages"],
    };
    let pages = around.edit(stack, || {
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
        let answer = admin.post("/wp-admin/admin-ajax.php", &fields).unwrap();
        assert_text(&answer.expect_status(200), "A zebra on the market");
    });
    assert_text(&pages[0], "A zebra on the market");
    assert_text(&pages[1], "A zebra on the market");
}

#[test]
fn bulk_edit_and_the_trash_take_posts_away() {
    let (stack, _turn) = turn();
    let ids = stack.publish(["bulk-one", "bulk-two"]);
    let mut admin = stack.admin();
    let around = Around {
        changed: &[
            "/bulk-one/",
            "/bulk-two/",
            "/",
            "/feed/",
            "/wp-sitemap-posts-post-1.xml",
        ],
        kept: &["/wp-json/wp/v2/pages", "/wp-sitemap.xml", "/comments/feed/"],
    };
    let nonce = nonce_in(
        &mut admin,
        "/wp-admin/edit.php",
        "name=\"_wpnonce\" value=\"",
    );
    let pages = around.edit(stack, || {
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
fn xml_rpc_publishes_what_was_missing() {
    let (stack, _turn) = turn();
    let around = Around {
        changed: &["/by-xml-rpc/", "/", "/feed/"],
        kept: &["/comments/feed/", "/wp-json/wp/v2/pages"],
    };
    let pages = around.edit(stack, || {
        let text = |name: &str, value: &str| {
            format!("<member><name>{name}</name><value><string>{value}</string></value></member>")
        };
        let members = [
            text("post_title", "By XML-RPC"),
            text("post_name", "by-xml-rpc"),
            text("post_status", "publish"),
            text("post_content", "Sent by a program."),
        ];
        let call = format!(
            "<?xml version=\"1.0\"?><methodCall><methodName>wp.newPost</methodName><params>\
             <param><value><int>1</int></value></param><param><value><string>{}</string></value></param>\
             <param><value><string>{}</string></value></param><param><value><struct>{}</struct></value></param></params></methodCall>",
            stack.wordpress.user,
            stack.wordpress.password,
            members.concat()
        );
        let answer = stack.send(Request::post("/xmlrpc.php", "text/xml", call)).expect_status(200);
        assert_no_text(&answer, "fault");
    });
    assert_text(&pages[0], "Sent by a program.");
    assert_text(&pages[1], "By XML-RPC");
}

#[test]
fn a_scheduled_post_appears_when_cron_runs() {
    let (stack, _turn) = turn();
    stack.php(
        "global $wpdb; $id = wp_insert_post(['post_title' => 'Right on time', 'post_name' => 'right-on-time', 'post_content' => 'x', \
         'post_status' => 'future', 'post_date' => gmdate('Y-m-d H:i:s', time() + 3600), 'post_author' => 1]); \
         wp_clear_scheduled_hook('publish_future_post', [$id]); $past = gmdate('Y-m-d H:i:s', time() - 5); \
         $wpdb->update($wpdb->posts, ['post_date' => $past, 'post_date_gmt' => $past], ['ID' => $id]); \
         wp_schedule_single_event(time() - 5, 'publish_future_post', [$id]);",
    );
    let around = Around {
        changed: &["/right-on-time/", "/"],
        kept: &["/comments/feed/", "/wp-json/wp/v2/pages"],
    };
    let pages = around.edit(stack, || {
        let _ = stack.get("/wp-cron.php?doing_wp_cron").expect_status(200);
        // WordPress answers first and publishes then.
        galley_testkit::wait_for("cron to publish", super::super::stack::TIMEOUT, || {
            stack.php("$found = get_posts(['name' => 'right-on-time']); echo count($found);").trim() == "1"
                && stack.php("global $wpdb; echo $wpdb->get_var(\"SELECT COUNT(*) FROM $wpdb->options WHERE option_name LIKE 'galley\\\\_pending\\\\_%'\");").trim() == "0"
        });
    });
    assert_eq!(pages[0].status, 200);
    assert_text(&pages[1], "Right on time");
}

#[test]
fn changes_by_a_command_line_program_purge() {
    let (stack, _turn) = turn();
    let id = id_of(stack, "salt-smoke-and-patience");
    let around = Around {
        changed: &[OLD],
        kept: &["/", OTHER, ABOUT],
    };
    let pages = around.edit(stack, || {
        stack.rewrite(u32::try_from(id).unwrap(), "Written by a program.");
    });
    assert_text(&pages[0], "Written by a program.");
}

#[test]
fn comments_change_their_post_when_they_are_shown() {
    let (stack, _turn) = turn();
    let id = id_of(stack, "market-day-in-the-rain");
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
    let pending = Around {
        changed: &[],
        kept: &[OTHER, OLD, "/", "/comments/feed/"],
    };
    pending.edit(stack, || comment = insert(0));
    let shown = Around {
        changed: &[OTHER],
        kept: &[OLD, ABOUT, "/comments/feed/"],
    };
    let pages = shown.edit(stack, || {
        rest(
            stack,
            "POST",
            &format!("/wp/v2/comments/{comment}"),
            &json!({ "status": "approved" }),
        );
    });
    assert_text(&pages[0], "Held back.");
    let pages = shown.edit(stack, || {
        rest(
            stack,
            "POST",
            &format!("/wp/v2/comments/{comment}"),
            &json!({ "content": "Said otherwise." }),
        );
    });
    assert_text(&pages[0], "Said otherwise.");
    let pages = shown.edit(stack, || {
        rest(
            stack,
            "POST",
            &format!("/wp/v2/comments/{comment}"),
            &json!({ "status": "spam" }),
        );
    });
    assert_no_text(&pages[0], "Said otherwise.");
}

#[test]
fn a_category_is_renamed_where_it_stands() {
    let (stack, _turn) = turn();
    let term = stack.php("echo wp_insert_term('Weather', 'category')['term_id'];");
    let [id] = stack.publish(["under-weather"]);
    stack.php(&format!("wp_set_post_categories({id}, [{}]);", term.trim()));
    let around = Around {
        changed: &["/category/weather/", "/under-weather/"],
        kept: &["/wp-json/wp/v2/pages", "/wp-sitemap-posts-post-1.xml"],
    };
    let pages = around.edit(stack, || {
        rest(
            stack,
            "POST",
            &format!("/wp/v2/categories/{}", term.trim()),
            &json!({ "name": "Wind and rain" }),
        );
    });
    assert_text(&pages[0], "Wind and rain");
    assert_text(&pages[1], "Wind and rain");
    // A description is shown by the archive alone.
    let around = Around {
        changed: &["/category/weather/"],
        kept: &["/under-weather/", "/", OLD],
    };
    around.edit(stack, || {
        rest(
            stack,
            "POST",
            &format!("/wp/v2/categories/{}", term.trim()),
            &json!({ "description": "All about it." }),
        );
    });
}

#[test]
fn a_user_is_renamed_where_he_stands() {
    let (stack, _turn) = turn();
    let author = stack.php("echo get_user_by('slug', 'ines')->ID;");
    let around = Around {
        changed: &["/author/ines/"],
        kept: &[ABOUT, "/nowhere/"],
    };
    let pages = around.edit(stack, || {
        rest(
            stack,
            "POST",
            &format!("/wp/v2/users/{}", author.trim()),
            &json!({ "name": "Ines Written Anew" }),
        );
    });
    assert_text(&pages[0], "Ines Written Anew");
}

#[test]
fn drafts_and_autosaves_change_nothing() {
    let (stack, _turn) = turn();
    let id = id_of(stack, "salt-smoke-and-patience");
    let around = Around {
        changed: &[],
        kept: &[
            "/",
            OLD,
            "/feed/",
            "/wp-sitemap-posts-post-1.xml",
            "/nowhere/",
        ],
    };
    around.edit(stack, || {
        let draft = rest(
            stack,
            "POST",
            "/wp/v2/posts",
            &json!({ "title": "A draft", "status": "draft", "content": "x" }),
        );
        rest(
            stack,
            "POST",
            &format!("/wp/v2/posts/{}", draft["id"]),
            &json!({ "content": "y" }),
        );
        rest(
            stack,
            "POST",
            &format!("/wp/v2/posts/{id}/autosaves"),
            &json!({ "content": "Not yet." }),
        );
    });
}
