//! The plugin in a multisite network: changes of one site purge only that site, changes of shared data purge all sites.
//!
//! Posts of both sites have the same ID, so a purge that does not name its site would affect the wrong page.

use std::fs;
use std::process::Command;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use galley_testkit::client::{Browser, Request, login};
use galley_testkit::wait_for;
use serde_json::{Value, json};

use super::super::multisite::{NET, SECOND, start_multisite};
use super::super::stack::{
    HIT, HOUR, StackOptions, TIMEOUT, UpstreamKind, WordPressStack, assert_cache_status,
    assert_no_text, assert_text,
};
use super::{
    ExpectedPurges, SharedStack, TOKEN, install, nonce_in, rest_api, rest_api_at,
    wait_until_acknowledged,
};

static SHARED: LazyLock<SharedStack> = LazyLock::new(|| {
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
    wait_until_acknowledged(&stack);
    SharedStack {
        stack,
        lock: Mutex::new(()),
    }
});

/// Starts a network with subdirectories or subdomains.
fn start_network(with_subdomains: bool) -> WordPressStack {
    let mut options =
        StackOptions::new([(NET, format!("multisite = {}\n{HOUR}", !with_subdomains))]);
    options.has_subdomains = with_subdomains;
    options.admin_token = Some(TOKEN);
    let stack = start_multisite(UpstreamKind::Fpm, &mut options);
    // Since 6.3 the first visit of each site makes WordPress create a navigation menu, which would count as an edit.
    stack.get("/");
    if with_subdomains {
        stack.get_from(SECOND, "/");
    } else {
        stack.get("/second/");
    }
    stack
}

/// Locks the shared network for one test.
pub fn shared_stack() -> (&'static WordPressStack, MutexGuard<'static, ()>) {
    let guard = SHARED.lock.lock().unwrap_or_else(PoisonError::into_inner);
    (&SHARED.stack, guard)
}

/// Returns the ID that the post `note` has on both sites.
fn note_id(stack: &WordPressStack) -> String {
    let ids = stack.php(
        "$ids = []; foreach ([1, 2] as $blog) { switch_to_blog($blog); $ids[] = get_page_by_path('note', OBJECT, 'post')->ID; restore_current_blog(); }
         echo implode(' ', array_unique($ids));",
    );
    assert!(ids.trim().parse::<u32>().is_ok(), "different IDs: {ids}");
    ids.trim().to_owned()
}

/// Returns how many unacknowledged purges the second site stores.
fn pending_on_second_site(stack: &WordPressStack) -> String {
    stack.php("echo $wpdb->get_var(\"SELECT COUNT(*) FROM wp_2_options WHERE option_name LIKE 'galley\\\\_pending\\\\_%'\");")
}

#[test]
fn an_edit_on_one_site_does_not_purge_the_others() {
    let (stack, _lock) = shared_stack();
    let note = note_id(stack);
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
        rest_api_at(
            stack,
            directory,
            "POST",
            &format!("/wp/v2/posts/{note}"),
            &body,
        );
    };
    let expected = ExpectedPurges {
        purged: &second,
        unaffected: &[&first[..], &["/second/sample-page/"]].concat(),
    };
    let pages = expected.check_after(stack, || edit("/second", "Written on the second"));
    for page in &pages {
        assert_text(page, "Written on the second");
    }
    let expected = ExpectedPurges {
        purged: &first[..4],
        unaffected: &second,
    };
    let pages = expected.check_after(stack, || edit("", "Written on the first"));
    for page in &pages {
        assert_text(page, "Written on the first");
        assert_no_text(page, "Written on the second");
    }
}

#[test]
fn a_change_made_from_another_site_purges_the_changed_site() {
    let (stack, _lock) = shared_stack();
    let note = note_id(stack);
    let expected = ExpectedPurges {
        purged: &["/second/note/"],
        unaffected: &["/note/", "/", "/second/sample-page/"],
    };
    let pages = expected.check_after(stack, || {
        stack.php(&format!(
            "switch_to_blog(2); wp_update_post(['ID' => {note}, 'post_content' => 'Written from afar']); restore_current_blog();"
        ));
    });
    assert_text(&pages[0], "Written from afar");
    assert_eq!(pending_on_second_site(stack), "0");

    // The form in the network admin area, which is part of the first site.
    let mut admin = stack.admin();
    let form = "/wp-admin/network/site-settings.php?id=2";
    let nonce = nonce_in(&mut admin, form, "name=\"_wpnonce\" value=\"");
    let expected = ExpectedPurges {
        purged: &["/second/", "/second/note/", "/second/feed/"],
        unaffected: &["/", "/note/", "/feed/"],
    };
    let pages = expected.check_after(stack, || {
        let fields = [
            ("_wpnonce", nonce.as_str()),
            ("id", "2"),
            ("option[blogname]", "The Second Anew"),
        ];
        let response = admin
            .post(
                "/wp-admin/network/site-settings.php?action=update-site",
                &fields,
            )
            .unwrap();
        assert_eq!(response.status, 302, "{}", response.excerpt());
    });
    assert_text(&pages[0], "The Second Anew");
    assert_eq!(pending_on_second_site(stack), "0");
}

#[test]
fn renaming_a_user_purges_pages_on_all_sites() {
    let (stack, _lock) = shared_stack();
    let user = stack.php("echo get_user_by('login', 'keeper')->ID;");
    let expected = ExpectedPurges {
        purged: &[
            "/kept/",
            "/feed/",
            "/second/kept/",
            "/second/feed/",
            "/second/author/keeper/",
        ],
        unaffected: &[
            "/sample-page/",
            "/second/sample-page/",
            "/second/author/admin/",
        ],
    };
    let pages = expected.check_after(stack, || {
        rest_api(
            stack,
            "POST",
            &format!("/wp/v2/users/{user}"),
            &json!({ "name": "A Keeper Renamed" }),
        );
    });
    for page in &pages {
        assert_text(page, "A Keeper Renamed");
    }
    // The theme does not print author descriptions.
    let archives = ["/author/keeper/", "/second/author/keeper/"];
    let records = ["", "/second"].map(|site| format!("{site}/wp-json/wp/v2/users/{user}"));
    let expected = ExpectedPurges {
        purged: &[&records[0], &records[1]],
        unaffected: &archives,
    };
    let pages = expected.check_after(stack, || {
        rest_api(
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
        assert!(!page.is_hit(), "{path} was not purged");
        assert_no_text(&page, "Keeps a light.");
    }
}

#[test]
fn removing_a_user_purges_the_reassigned_posts() {
    let (stack, _lock) = shared_stack();
    let user = stack.php(
        "$user = wp_insert_user(['user_login' => 'leaver' . wp_rand(), 'user_nicename' => 'leaver', 'user_pass' => 'x', 'display_name' => 'The Leaver']);
         add_user_to_blog(2, $user, 'author'); switch_to_blog(2);
         wp_insert_post(['post_name' => 'left', 'post_title' => 'Left behind', 'post_content' => 'x', 'post_status' => 'publish', 'post_author' => $user]);
         echo $user;",
    );
    let expected = ExpectedPurges {
        purged: &[
            "/second/left/",
            "/second/author/admin/",
            "/second/feed/",
            "/second/wp-json/wp/v2/posts",
        ],
        unaffected: &["/", "/note/", "/author/admin/", "/second/sample-page/"],
    };
    let pages = expected.check_after(stack, || {
        stack.php(&format!("remove_user_from_blog({user}, 2, 1);"));
    });
    assert_text(&pages[1], "Left behind");
    assert_no_text(&pages[2], "The Leaver");
}

#[test]
fn network_activation_of_a_plugin_purges_all_sites() {
    let (stack, _lock) = shared_stack();
    let hello = stack
        .wordpress
        .root
        .join("wp-content/plugins/hello-net.php");
    fs::write(&hello, "<?php\n/* Plugin Name: Hello Net */\nadd_action('wp_footer', function () { echo 'HELLO NET'; });").unwrap();
    let pages = ["/note/", "/second/note/"];
    let run_and_get_statuses = |code: &str| {
        for path in pages {
            // Waits for the refresh after an earlier soft purge.
            wait_for(&format!("{path} to be a hit"), TIMEOUT, || {
                stack.get(path).cache_status() == HIT
            });
        }
        stack.php(&format!(
            "require_once ABSPATH . 'wp-admin/includes/plugin.php'; {code}"
        ));
        pages.map(|path| stack.get(path).cache_status().to_owned())
    };
    // After a soft purge, stale pages are served while they are revalidated.
    let both = run_and_get_statuses("activate_plugin('hello-net.php', '', true);");
    assert!(both.iter().all(|status| status != HIT), "{both:?}");
    let both = run_and_get_statuses("deactivate_plugins('hello-net.php', false, true);");
    assert!(both.iter().all(|status| status != HIT), "{both:?}");
    let one = run_and_get_statuses(
        "switch_to_blog(2); activate_plugin('hello-net.php'); restore_current_blog();",
    );
    assert_eq!(one[0], HIT);
    assert_ne!(one[1], HIT);
    let one = run_and_get_statuses(
        "switch_to_blog(2); deactivate_plugins('hello-net.php', false, false); restore_current_blog();",
    );
    assert_eq!(one[0], HIT);
    assert_ne!(one[1], HIT);
}

#[test]
fn a_network_setting_purges_all_sites() {
    let (stack, _lock) = shared_stack();
    let expected = ExpectedPurges {
        purged: &["/", "/note/", "/second/", "/second/note/"],
        unaffected: &[],
    };
    expected.check_after(stack, || {
        stack.php("update_site_option('registration', 'user');");
    });
    let expected = ExpectedPurges {
        purged: &[],
        unaffected: &["/note/", "/second/note/"],
    };
    expected.check_after(stack, || {
        stack.php("update_site_option('some_record', wp_rand()); update_site_option('blog_upload_space', wp_rand());");
    });
}

#[test]
fn creating_archiving_and_deleting_a_site_purges_its_pages() {
    let (stack, _lock) = shared_stack();
    let expected = ExpectedPurges {
        purged: &["/third/", "/third/hello-world/"],
        unaffected: &["/note/", "/second/note/"],
    };
    let pages = expected.check_after(stack, || {
        stack.php("$done = wpmu_create_blog('net.test', '/third/', 'The Third', 1); if (is_wp_error($done)) { throw new \\Exception($done->get_error_message()); }");
    });
    assert_text(&pages[0], "The Third");
    let third = "get_sites(['path' => '/third/'])[0]->blog_id";
    let expected = ExpectedPurges {
        purged: &["/third/hello-world/"],
        unaffected: &["/note/", "/second/note/"],
    };
    let pages = expected.check_after(stack, || {
        stack.php(&format!("update_blog_status({third}, 'archived', '1');"));
    });
    assert_eq!(pages[0].status, 410);
    stack.php(&format!("update_blog_status({third}, 'archived', '0');"));
    // Another page than above, which now has a hit-for-pass entry.
    let expected = ExpectedPurges {
        purged: &["/third/"],
        unaffected: &["/note/", "/second/note/"],
    };
    let pages = expected.check_after(stack, || {
        stack.php(&format!(
            "require_once ABSPATH . 'wp-admin/includes/admin.php'; wpmu_delete_blog({third}, true);"
        ));
    });
    assert_eq!(pages[0].status, 404);
}

/// A page of the first site shows a post of the second.
#[test]
fn a_page_is_purged_with_a_shown_post_of_another_site() {
    let (stack, _lock) = shared_stack();
    let note = note_id(stack);
    let shortcode = stack
        .wordpress
        .root
        .join("wp-content/mu-plugins/shortcode.php");
    fs::write(
        &shortcode,
        format!(
            "<?php add_shortcode('afar', function () {{ switch_to_blog(2); $text = get_the_title({note}) . get_post_field('post_content', {note}); \
             $list = count(get_sites()); restore_current_blog(); return \"<p>$text</p>sites: $list.\"; }});"
        ),
    )
    .unwrap();
    stack.php("wp_insert_post(['post_name' => 'afar', 'post_title' => 'Afar', 'post_content' => '[afar]', 'post_status' => 'publish', 'post_author' => 1]);");
    let expected = ExpectedPurges {
        purged: &["/afar/", "/second/note/"],
        unaffected: &["/note/", "/sample-page/"],
    };
    let pages = expected.check_after(stack, || {
        let body = json!({ "title": "Seen from afar" });
        rest_api_at(
            stack,
            "/second",
            "POST",
            &format!("/wp/v2/posts/{note}"),
            &body,
        );
    });
    assert_text(&pages[0], "Seen from afar");
    fs::remove_file(shortcode).unwrap();
}

#[test]
fn sites_with_their_own_hosts_are_purged_separately() {
    let stack = start_network(true);
    install(&stack);
    let note = note_id(&stack);
    let store = || {
        for host in [NET, SECOND] {
            assert_eq!(stack.get_from(host, "/note/").status, 200);
            assert_cache_status(&stack.get_from(host, "/note/"), HIT);
        }
    };
    store();
    stack.php(&format!(
        "switch_to_blog(2); wp_update_post(['ID' => {note}, 'post_content' => 'Of the second host']); restore_current_blog();"
    ));
    assert_cache_status(&stack.get_from(NET, "/note/"), HIT);
    let page = stack.get_from(SECOND, "/note/");
    assert!(!page.is_hit(), "{}", page.excerpt());
    assert_text(&page, "Of the second host");
    // An edit in a browser: a response of the second host contains the purge.
    store();
    let mut admin = Browser::new(stack.addr(), SECOND);
    admin.jar = login(stack.addr(), SECOND, "admin", &stack.wordpress.password).unwrap();
    let nonce = super::rest_nonce(&mut admin);
    let request = Request::post(
        &format!("/wp-json/wp/v2/posts/{note}"),
        "application/json",
        json!({ "content": "By hand" }).to_string(),
    );
    let response = admin.send(request.field("X-WP-Nonce", &nonce)).unwrap();
    assert_eq!(response.status, 200, "{}", response.excerpt());
    assert_cache_status(&stack.get_from(NET, "/note/"), HIT);
    assert_text(&stack.get_from(SECOND, "/note/"), "By hand");
    // A user name affects all hosts. A URL belongs to one host, whichever site purges it.
    store();
    stack.php("wp_update_user(['ID' => 1, 'display_name' => 'The Admiral']);");
    for host in [NET, SECOND] {
        assert!(!stack.get_from(host, "/note/").is_hit(), "{host}");
    }
    store();
    stack.php("do_action('galley_purge_url', 'http://second.net.test/note/');");
    assert!(!stack.get_from(SECOND, "/note/").is_hit());
}

#[test]
fn plugin_install_activates_for_the_whole_network() {
    let stack = start_network(false);
    let root = stack.wordpress.root.to_str().unwrap();
    let token = stack.scratch.join("admin.token");
    // Without this block, only the constants in the configuration name the host of the network.
    let config = stack.wordpress.root.join("wp-config.php");
    let original = fs::read_to_string(&config).unwrap();
    let without_host = original.replace("if ( PHP_SAPI === 'cli' ) {", "if ( false ) {");
    assert_ne!(without_host, original);
    let admin = stack.galley.admin().unwrap();
    let run = |arguments: &[&str]| -> Value {
        fs::write(&config, &without_host).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_galley"))
            .args(arguments)
            .output()
            .unwrap();
        fs::write(&config, &original).unwrap();
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
    let remaining = stack.php(
        "foreach (['wp_options', 'wp_2_options'] as $table) { echo $wpdb->get_var(\"SELECT COUNT(*) FROM $table WHERE option_name LIKE '%galley%'\"); }
         echo count(get_site_option('active_sitewide_plugins'));",
    );
    assert_eq!(remaining, "000");
    assert_eq!(stack.get("/second/note/").status, 200);
}

#[test]
fn plugin_install_finds_a_network_whose_address_has_a_port() {
    let stack = start_network(false);
    stack.php(
        "foreach (['wp_site', 'wp_blogs'] as $table) { $wpdb->query(\"UPDATE $table SET domain = CONCAT(domain, ':8443')\"); }",
    );
    let config = stack.wordpress.root.join("wp-config.php");
    let text = fs::read_to_string(&config).unwrap();
    // As a configuration that computes the constants: only the database has the address.
    let text = text.replace("if ( PHP_SAPI === 'cli' ) {", "if ( false ) {");
    let text = text.replace("'DOMAIN_CURRENT_SITE', '", "'DOMAIN_CURRENT_SITE', '' . '");
    let text = text.replace("net.test'", "net.test:8443'");
    assert!(text.contains("'' . 'net.test:8443'"), "{text}");
    fs::write(&config, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_galley"))
        .args(["plugin", "install", "--json", "--admin"])
        .arg(stack.galley.admin().unwrap())
        .arg("--token-file")
        .args([
            stack.scratch.join("admin.token"),
            stack.wordpress.root.clone(),
        ])
        .output()
        .unwrap();
    let done: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(done["active"], true, "{done}");
}

#[test]
fn the_network_settings_page_purges_all_sites() {
    let (stack, _lock) = shared_stack();
    let page = "/wp-admin/network/settings.php?page=galley-network";
    let mut admin = stack.admin();
    let text = admin.get(page).unwrap().expect_status(200).text();
    for expected in ["galley-state-line is-", "/second/", "Purge all sites"] {
        assert!(text.contains(expected), "no `{expected}` in {text}");
    }
    let expected = ExpectedPurges {
        purged: &["/", "/note/", "/second/", "/second/note/"],
        unaffected: &[],
    };
    let nonce = nonce_in(&mut admin, page, "name=\"_wpnonce\" value=\"");
    let target = "/wp-admin/network/edit.php?action=galley_purge_network";
    let without_nonce = admin.post(target, &[]).unwrap();
    assert_eq!(without_nonce.status, 403, "{}", without_nonce.excerpt());
    expected.check_after(stack, || {
        let response = admin.post(target, &[("_wpnonce", &nonce)]).unwrap();
        assert_eq!(response.status, 302, "{}", response.excerpt());
    });
    let text = admin.get(page).unwrap().text();
    assert!(text.contains("Purge all pages"), "{text}");
    // Each site has a separate settings page.
    let site_page = admin.get("/second/wp-admin/options-general.php?page=galley");
    let site_page = site_page.unwrap().expect_status(200).text();
    assert!(site_page.contains("galley-state-line is-"), "{site_page}");
}
