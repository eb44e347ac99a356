//! The plugin in a network of sites: what belongs to one site changes that one alone, what all have in common changes all.
//!
//! The sites' posts have the same numbers, so an order without its site would show at once.

use std::fs;
use std::process::Command;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use galley_testkit::client::{Browser, Request, login};
use galley_testkit::wait_for;
use serde_json::{Value, json};

use super::super::network::{NET, SECOND, network};
use super::super::stack::{
    HIT, HOUR, Kind, SiteBuilder, Stack, TIMEOUT, assert_no_text, assert_text, assert_way,
};
use super::{Around, Edited, TOKEN, install, nonce_in, rest, rest_at};

static NETWORK: LazyLock<Edited> = LazyLock::new(|| {
    let stack = start_network(false);
    install(&stack);
    stack.php(
        "$user = wp_insert_user(['user_login' => 'keeper', 'user_pass' => 'x', 'display_name' => 'The Keeper', 'role' => 'author']);
         foreach ([1, 2] as $id) {
             switch_to_blog($id);
             add_user_to_blog($id, $user, 'author');
             wp_insert_post(['post_name' => 'kept', 'post_title' => 'Kept of ' . $id, 'post_content' => 'x', 'post_status' => 'publish', 'post_author' => $user]);
             restore_current_blog();
         }",
    );
    Edited {
        stack,
        turn: Mutex::new(()),
    }
});

/// In directories, or with hosts of their own.
fn start_network(with_hosts: bool) -> Stack {
    let mut plan = SiteBuilder::new([(NET, format!("multisite = {}\n{HOUR}", !with_hosts))]);
    plan.has_names_below = with_hosts;
    plan.token = Some(TOKEN);
    let stack = network(Kind::Fpm, &mut plan);
    // From 6.3 on WordPress writes a menu of its own, for each site's first visitor, which then is an edit.
    stack.get("/");
    if with_hosts {
        stack.get_from(SECOND, "/");
    } else {
        stack.get("/second/");
    }
    stack
}

pub fn turn() -> (&'static Stack, MutexGuard<'static, ()>) {
    let guard = NETWORK.turn.lock().unwrap_or_else(PoisonError::into_inner);
    (&NETWORK.stack, guard)
}

/// The number that the post `note` has on both sites.
fn note(stack: &Stack) -> String {
    let ids = stack.php(
        "$ids = []; foreach ([1, 2] as $blog) { switch_to_blog($blog); $ids[] = get_page_by_path('note', OBJECT, 'post')->ID; restore_current_blog(); }
         echo implode(' ', array_unique($ids));",
    );
    assert!(ids.trim().parse::<u32>().is_ok(), "not the same: {ids}");
    ids.trim().to_owned()
}

/// How many rows of orders that are not known to have arrived the second site keeps.
fn pending_of_the_second(stack: &Stack) -> String {
    stack.php("echo $wpdb->get_var(\"SELECT COUNT(*) FROM wp_2_options WHERE option_name LIKE 'galley\\\\_pending\\\\_%'\");")
}

#[test]
fn an_edit_of_one_site_leaves_the_others() {
    let (stack, _turn) = turn();
    let note = note(stack);
    let first = [
        "/",
        "/note/",
        "/feed/",
        "/wp-json/wp/v2/posts",
        "/sample-page/",
    ];
    let second = [
        "/second/",
        "/second/note/",
        "/second/feed/",
        "/second/wp-json/wp/v2/posts",
    ];
    let edit = |directory: &str, text: &str| {
        let body = json!({ "title": text, "content": text });
        rest_at(
            stack,
            directory,
            "POST",
            &format!("/wp/v2/posts/{note}"),
            &body,
        );
    };
    let around = Around {
        changed: &second,
        kept: &[&first[..], &["/second/sample-page/"]].concat(),
    };
    let pages = around.edit(stack, || edit("/second", "Written on the second"));
    for page in &pages {
        assert_text(page, "Written on the second");
    }
    let around = Around {
        changed: &first[..4],
        kept: &second,
    };
    let pages = around.edit(stack, || edit("", "Written on the first"));
    for page in &pages {
        assert_text(page, "Written on the first");
        assert_no_text(page, "Written on the second");
    }
}

#[test]
fn what_one_site_changes_of_another_is_ordered_there() {
    let (stack, _turn) = turn();
    let note = note(stack);
    let around = Around {
        changed: &["/second/note/"],
        kept: &["/note/", "/", "/second/sample-page/"],
    };
    let pages = around.edit(stack, || {
        stack.php(&format!(
            "switch_to_blog(2); wp_update_post(['ID' => {note}, 'post_content' => 'Written from afar']); restore_current_blog();"
        ));
    });
    assert_text(&pages[0], "Written from afar");
    assert_eq!(pending_of_the_second(stack), "0");

    // The form of the network's administration, which belongs to the first site.
    let mut admin = stack.admin();
    let form = "/wp-admin/network/site-settings.php?id=2";
    let nonce = nonce_in(&mut admin, form, "name=\"_wpnonce\" value=\"");
    let around = Around {
        changed: &["/second/", "/second/note/", "/second/feed/"],
        kept: &["/", "/note/", "/feed/"],
    };
    let pages = around.edit(stack, || {
        let fields = [
            ("_wpnonce", nonce.as_str()),
            ("id", "2"),
            ("option[blogname]", "The Second Anew"),
        ];
        let answer = admin
            .post(
                "/wp-admin/network/site-settings.php?action=update-site",
                &fields,
            )
            .unwrap();
        assert_eq!(answer.status, 302, "{}", answer.beginning());
    });
    assert_text(&pages[0], "The Second Anew");
    assert_eq!(pending_of_the_second(stack), "0");
}

#[test]
fn a_users_name_changes_the_pages_of_all_sites() {
    let (stack, _turn) = turn();
    let user = stack.php("echo get_user_by('login', 'keeper')->ID;");
    let around = Around {
        changed: &[
            "/kept/",
            "/feed/",
            "/second/kept/",
            "/second/feed/",
            "/second/author/keeper/",
        ],
        kept: &[
            "/sample-page/",
            "/second/sample-page/",
            "/second/author/admin/",
        ],
    };
    let pages = around.edit(stack, || {
        rest(
            stack,
            "POST",
            &format!("/wp/v2/users/{user}"),
            &json!({ "name": "A Keeper Renamed" }),
        );
    });
    for page in &pages {
        assert_text(page, "A Keeper Renamed");
    }
    // The theme prints no description of an author.
    let archives = ["/author/keeper/", "/second/author/keeper/"];
    let records = ["", "/second"].map(|site| format!("{site}/wp-json/wp/v2/users/{user}"));
    let around = Around {
        changed: &[&records[0], &records[1]],
        kept: &archives,
    };
    let pages = around.edit(stack, || {
        rest(
            stack,
            "POST",
            &format!("/wp/v2/users/{user}"),
            &json!({ "description": "Keeps a light." }),
        );
    });
    for page in &pages {
        assert_text(page, "Keeps a light.");
    }
    stack.php("do_action('galley_purge_all'); switch_to_blog(2); do_action('galley_purge_all');");
    for path in archives {
        let page = stack.get(path);
        assert!(!page.is_hit(), "{path} is not composed anew");
        assert_no_text(&page, "Keeps a light.");
    }
}

#[test]
fn the_posts_of_a_user_who_leaves_go_to_another() {
    let (stack, _turn) = turn();
    let user = stack.php(
        "$user = wp_insert_user(['user_login' => 'leaver' . wp_rand(), 'user_nicename' => 'leaver', 'user_pass' => 'x', 'display_name' => 'The Leaver']);
         add_user_to_blog(2, $user, 'author'); switch_to_blog(2);
         wp_insert_post(['post_name' => 'left', 'post_title' => 'Left behind', 'post_content' => 'x', 'post_status' => 'publish', 'post_author' => $user]);
         echo $user;",
    );
    let around = Around {
        changed: &[
            "/second/left/",
            "/second/author/admin/",
            "/second/feed/",
            "/second/wp-json/wp/v2/posts",
        ],
        kept: &["/", "/note/", "/author/admin/", "/second/sample-page/"],
    };
    let pages = around.edit(stack, || {
        stack.php(&format!("remove_user_from_blog({user}, 2, 1);"));
    });
    assert_text(&pages[1], "Left behind");
    assert_no_text(&pages[2], "The Leaver");
}

#[test]
fn a_plugin_of_the_network_changes_all_sites() {
    let (stack, _turn) = turn();
    let hello = stack
        .wordpress
        .root
        .join("wp-content/plugins/hello-net.php");
    fs::write(&hello, "<?php\n/* Plugin Name: Hello Net */\nadd_action('wp_footer', function () { echo 'HELLO NET'; });").unwrap();
    let pages = ["/note/", "/second/note/"];
    let switched = |code: &str| {
        for path in pages {
            // Until what was softened before is renewed.
            wait_for(&format!("{path} to be a hit"), TIMEOUT, || {
                stack.get(path).cache_status() == HIT
            });
        }
        stack.php(&format!(
            "require_once ABSPATH . 'wp-admin/includes/plugin.php'; {code}"
        ));
        pages.map(|path| stack.get(path).cache_status().to_owned())
    };
    // Old pages may answer once more, and say that they are being renewed.
    let both = switched("activate_plugin('hello-net.php', '', true);");
    assert!(both.iter().all(|way| way != HIT), "{both:?}");
    let both = switched("deactivate_plugins('hello-net.php', false, true);");
    assert!(both.iter().all(|way| way != HIT), "{both:?}");
    let one =
        switched("switch_to_blog(2); activate_plugin('hello-net.php'); restore_current_blog();");
    assert_eq!(one[0], HIT);
    assert_ne!(one[1], HIT);
    let one = switched(
        "switch_to_blog(2); deactivate_plugins('hello-net.php', false, false); restore_current_blog();",
    );
    assert_eq!(one[0], HIT);
    assert_ne!(one[1], HIT);
}

#[test]
fn a_setting_of_the_network_changes_all_sites() {
    let (stack, _turn) = turn();
    let around = Around {
        changed: &["/", "/note/", "/second/", "/second/note/"],
        kept: &[],
    };
    around.edit(stack, || {
        stack.php("update_site_option('registration', 'user');");
    });
    let around = Around {
        changed: &[],
        kept: &["/note/", "/second/note/"],
    };
    around.edit(stack, || {
        stack.php("update_site_option('some_record', wp_rand()); update_site_option('blog_upload_space', wp_rand());");
    });
}

#[test]
fn sites_come_and_go() {
    let (stack, _turn) = turn();
    let around = Around {
        changed: &["/third/", "/third/hello-world/"],
        kept: &["/note/", "/second/note/"],
    };
    let pages = around.edit(stack, || {
        stack.php("$done = wpmu_create_blog('net.test', '/third/', 'The Third', 1); if (is_wp_error($done)) { throw new \\Exception($done->get_error_message()); }");
    });
    assert_text(&pages[0], "The Third");
    let third = "get_sites(['path' => '/third/'])[0]->blog_id";
    let around = Around {
        changed: &["/third/hello-world/"],
        kept: &["/note/", "/second/note/"],
    };
    let pages = around.edit(stack, || {
        stack.php(&format!("update_blog_status({third}, 'archived', '1');"));
    });
    assert_eq!(pages[0].status, 410);
    stack.php(&format!("update_blog_status({third}, 'archived', '0');"));
    // Not the page above: what was forbidden to store is remembered for a while.
    let around = Around {
        changed: &["/third/"],
        kept: &["/note/", "/second/note/"],
    };
    let pages = around.edit(stack, || {
        stack.php(&format!(
            "require_once ABSPATH . 'wp-admin/includes/admin.php'; wpmu_delete_blog({third}, true);"
        ));
    });
    assert_eq!(pages[0].status, 404);
}

/// A page of one site that shows a post of another.
#[test]
fn a_page_may_show_what_another_site_has() {
    let (stack, _turn) = turn();
    let note = note(stack);
    let shower = stack
        .wordpress
        .root
        .join("wp-content/mu-plugins/shower.php");
    fs::write(
        &shower,
        format!(
            "<?php add_shortcode('afar', function () {{ switch_to_blog(2); $text = get_the_title({note}) . get_post_field('post_content', {note}); \
             $list = count(get_sites()); restore_current_blog(); return \"<p>$text</p>sites: $list.\"; }});"
        ),
    )
    .unwrap();
    stack.php("wp_insert_post(['post_name' => 'afar', 'post_title' => 'Afar', 'post_content' => '[afar]', 'post_status' => 'publish', 'post_author' => 1]);");
    let around = Around {
        changed: &["/afar/", "/second/note/"],
        kept: &["/note/", "/sample-page/"],
    };
    let pages = around.edit(stack, || {
        let body = json!({ "title": "Seen from afar" });
        rest_at(
            stack,
            "/second",
            "POST",
            &format!("/wp/v2/posts/{note}"),
            &body,
        );
    });
    assert_text(&pages[0], "Seen from afar");
    fs::remove_file(shower).unwrap();
}

#[test]
fn sites_with_their_own_hosts_are_purged_separately() {
    let stack = start_network(true);
    install(&stack);
    let note = note(&stack);
    let warm = || {
        for host in [NET, SECOND] {
            assert_eq!(stack.get_from(host, "/note/").status, 200);
            assert_way(&stack.get_from(host, "/note/"), HIT);
        }
    };
    warm();
    stack.php(&format!(
        "switch_to_blog(2); wp_update_post(['ID' => {note}, 'post_content' => 'Of the second host']); restore_current_blog();"
    ));
    assert_way(&stack.get_from(NET, "/note/"), HIT);
    let page = stack.get_from(SECOND, "/note/");
    assert!(!page.is_hit(), "{}", page.beginning());
    assert_text(&page, "Of the second host");
    // From a browser: the order travels in an answer of the second host.
    warm();
    let mut admin = Browser::new(stack.addr(), SECOND);
    admin.jar = login(stack.addr(), SECOND, "admin", &stack.wordpress.password).unwrap();
    let nonce = super::rest_nonce(&mut admin);
    let request = Request::post(
        &format!("/wp-json/wp/v2/posts/{note}"),
        "application/json",
        json!({ "content": "By hand" }).to_string(),
    );
    let answer = admin.send(request.field("X-WP-Nonce", &nonce)).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.beginning());
    assert_way(&stack.get_from(NET, "/note/"), HIT);
    assert_text(&stack.get_from(SECOND, "/note/"), "By hand");
    // A name is everybody's; an address is one host's, whichever blog purges it.
    warm();
    stack.php("wp_update_user(['ID' => 1, 'display_name' => 'The Admiral']);");
    for host in [NET, SECOND] {
        assert!(!stack.get_from(host, "/note/").is_hit(), "{host}");
    }
    warm();
    stack.php("do_action('galley_purge_url', 'http://second.net.test/note/');");
    assert!(!stack.get_from(SECOND, "/note/").is_hit());
}

#[test]
fn the_command_installs_for_the_whole_network() {
    let stack = start_network(false);
    let root = stack.wordpress.root.to_str().unwrap();
    let token = stack.scratch.join("admin.token");
    // Nobody but the configuration's constants says under which name the network answers.
    let config = stack.wordpress.root.join("wp-config.php");
    let kept = fs::read_to_string(&config).unwrap();
    let alone = kept.replace("if ( PHP_SAPI === 'cli' ) {", "if ( false ) {");
    assert_ne!(alone, kept);
    let admin = stack.galley.admin().unwrap();
    let run = |arguments: &[&str]| -> Value {
        fs::write(&config, &alone).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_galley"))
            .args(arguments)
            .output()
            .unwrap();
        fs::write(&config, &kept).unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let done = run(&[
        "plugin",
        "install",
        "--json",
        "--admin",
        &admin,
        "--token-file",
        token.to_str().unwrap(),
        root,
    ]);
    assert_eq!(done["active"], true, "{done}");
    let active = stack.php("echo isset(get_site_option('active_sitewide_plugins')['galley/galley.php']) ? 'network' : 'one';");
    assert_eq!(active, "network");
    stack.get("/second/note/");
    stack.php("switch_to_blog(2); do_action('galley_purge_all'); restore_current_blog();");
    let removed = run(&["plugin", "remove", "--json", root]);
    assert_eq!(
        (&removed["clean"], &removed["ok"]),
        (&true.into(), &true.into()),
        "{removed}"
    );
    let left = stack.php(
        "foreach (['wp_options', 'wp_2_options'] as $table) { echo $wpdb->get_var(\"SELECT COUNT(*) FROM $table WHERE option_name LIKE '%galley%'\"); }
         echo count(get_site_option('active_sitewide_plugins'));",
    );
    assert_eq!(left, "000");
    assert_eq!(stack.get("/second/note/").status, 200);
}

#[test]
fn the_network_has_a_page_that_purges_all_its_sites() {
    let (stack, _turn) = turn();
    let page = "/wp-admin/network/settings.php?page=galley-network";
    let mut admin = stack.admin();
    let text = admin.get(page).unwrap().expect_status(200).text();
    for wanted in ["galley-state-line is-", "/second/", "Purge all sites"] {
        assert!(text.contains(wanted), "no `{wanted}` in {text}");
    }
    let around = Around {
        changed: &["/", "/note/", "/second/", "/second/note/"],
        kept: &[],
    };
    let nonce = nonce_in(&mut admin, page, "name=\"_wpnonce\" value=\"");
    let target = "/wp-admin/network/edit.php?action=galley_purge_network";
    let bare = admin.post(target, &[]).unwrap();
    assert_eq!(bare.status, 403, "{}", bare.beginning());
    around.edit(stack, || {
        let answer = admin.post(target, &[("_wpnonce", &nonce)]).unwrap();
        assert_eq!(answer.status, 302, "{}", answer.beginning());
    });
    let text = admin.get(page).unwrap().text();
    assert!(text.contains("Purge all pages"), "{text}");
    // Each site has its own page, for its own administration.
    let own = admin.get("/second/wp-admin/options-general.php?page=galley");
    let own = own.unwrap().expect_status(200).text();
    assert!(own.contains("galley-state-line is-"), "{own}");
}
