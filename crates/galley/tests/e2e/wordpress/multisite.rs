//! A multisite network in subdirectories: pages, admin areas and files of each site under one host.

use std::fmt::Write as _;
use std::fs;

use galley_testkit::SampleContent;
use galley_testkit::client::login;

use super::stack::{
    HIT, HOUR, STORED, StackOptions, UpstreamKind, WordPressStack, assert_cache_status,
    assert_no_text, assert_refetched, assert_text,
};

test_with_own_stack! { a_subdirectory_multisite_is_served }

/// The first site's host.
pub const NET: &str = "net.test";

/// The second site's host in a network with subdomains.
pub const SECOND: &str = "second.net.test";

/// The rules that WordPress recommends for multisite networks in subdirectories.
const HTACCESS: &str = r"RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\.php$ - [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?wp-admin$ $1wp-admin/ [R=301,L]
RewriteCond %{REQUEST_FILENAME} -f [OR]
RewriteCond %{REQUEST_FILENAME} -d
RewriteRule ^ - [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?(wp-(content|admin|includes).*) $2 [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?(.*\.php)$ $2 [L]
RewriteRule . index.php [L]
";

/// Starts a stack and converts its first site into a multisite network of two sites with WordPress's own functions. The second site
/// is in a subdirectory, or on a subdomain if the options have subdomains. Both have a post `note` with the same ID.
pub fn start_multisite(kind: UpstreamKind, options: &mut StackOptions) -> WordPressStack {
    let has_subdomains = options.has_subdomains;
    let (domain, path, home) = if has_subdomains {
        (SECOND, "/", "http://second.net.test")
    } else {
        (NET, "/second/", "http://net.test/second")
    };
    options.wordpress.sample = SampleContent::None;
    // The constants require the tables, which are created below.
    let _ = write!(
        options.wordpress.extra_config,
        "if ( PHP_SAPI === 'cli' ) {{ $_SERVER['HTTP_HOST'] = 'net.test'; }}
if ( file_exists( __DIR__ . '/../notes/network' ) ) {{
	define( 'MULTISITE', true );
	define( 'SUBDOMAIN_INSTALL', {has_subdomains} );
	define( 'DOMAIN_CURRENT_SITE', 'net.test' );
	define( 'PATH_CURRENT_SITE', '/' );
	define( 'SITE_ID_CURRENT_SITE', 1 );
	define( 'BLOG_ID_CURRENT_SITE', 1 );
}}"
    );
    let stack = WordPressStack::start(kind, options);
    // The test machine has no wildcard DNS, so this error is expected.
    stack.php(&format!(
        "require_once ABSPATH . 'wp-admin/includes/upgrade.php';
         require_once ABSPATH . 'wp-admin/includes/network.php';
         foreach ($wpdb->tables('ms_global') as $table => $name) {{ $wpdb->$table = $name; }}
         install_network();
         $done = populate_network(1, 'net.test', 'admin@example.org', 'The Network', '/', {has_subdomains});
         if (is_wp_error($done) && 'no_wildcard_dns' !== $done->get_error_code()) {{ throw new \\Exception($done->get_error_message()); }}"
    ));
    stack.scratch.write("notes/network", "").unwrap();
    fs::write(stack.wordpress.root.join(".htaccess"), HTACCESS).unwrap();
    stack.php(&format!(
        "$blog = wpmu_create_blog('{domain}', '{path}', 'The Second', 1);
         if (is_wp_error($blog)) {{ throw new \\Exception($blog->get_error_message()); }}
         foreach ([1, $blog] as $id) {{
             switch_to_blog($id);
             update_option('permalink_structure', '/%postname%/');
             update_option('home', $id === 1 ? 'http://net.test' : '{home}');
             update_option('siteurl', $id === 1 ? 'http://net.test' : '{home}');
             delete_option('rewrite_rules');
             wp_insert_post(['import_id' => 40, 'post_name' => 'note', 'post_title' => 'Note of ' . $id, 'post_content' => 'x', 'post_status' => 'publish', 'post_author' => 1]);
             restore_current_blog();
         }}"
    ));
    stack
}

fn a_subdirectory_multisite_is_served(kind: UpstreamKind) {
    let mut options = StackOptions::new([(NET, format!("multisite = true\n{HOUR}"))]);
    let stack = start_multisite(kind, &mut options);
    for (path, title, url) in [
        ("/note/", "Note of 1", "http://net.test/wp-includes/"),
        (
            "/second/note/",
            "Note of 2",
            "http://net.test/second/wp-includes/",
        ),
        ("/second/", "The Second", "http://net.test/second/note/"),
    ] {
        let first = stack.get(path).expect_status(200);
        assert_cache_status(&first, STORED);
        assert_text(&first, title);
        assert_text(&first, url);
        assert_cache_status(&stack.get(path), HIT);
    }
    assert_sites_share_files(&stack);
    assert_sites_have_separate_admin_areas(&stack);
    // The sites share a host, so a prefix purges one site.
    stack.get("/second/");
    stack.purge(&["--site", NET, "--prefix", "/second/"]);
    assert_refetched(&stack.get("/second/note/"));
    assert_cache_status(&stack.get("/note/"), HIT);
}

fn assert_sites_share_files(stack: &WordPressStack) {
    let root = &stack.wordpress.root;
    for file in [
        "wp-includes/js/jquery/jquery.min.js",
        "wp-admin/css/login.min.css",
    ] {
        let expected = fs::read(root.join(file)).unwrap();
        for path in [format!("/{file}"), format!("/second/{file}")] {
            let response = stack.get(&path).expect_status(200);
            assert_cache_status(&response, "galley; detail=file");
            assert!(response.body == expected, "{path}");
        }
    }
    let uploads = root.join("wp-content/uploads/sites/2");
    fs::create_dir_all(&uploads).unwrap();
    fs::write(uploads.join("a.txt"), "a file of the second").unwrap();
    fs::write(uploads.join("evil.php"), "<?php echo 'RAN', 6 * 7;").unwrap();
    let response = stack.get("/second/wp-content/uploads/sites/2/a.txt");
    assert_eq!(response.text(), "a file of the second");
    for path in [
        "/second/wp-content/uploads/sites/2/evil.php",
        "/second/wp-config.php",
        "/second/.htaccess",
        "/second/wp-content/uploads/sites/2/evil.php/x.png",
    ] {
        let response = stack.get(path).expect_status(403);
        let text = response.text();
        assert!(!text.contains("RAN42") && !text.contains("<?php") && !text.contains("Rewrite"));
    }
}

fn assert_sites_have_separate_admin_areas(stack: &WordPressStack) {
    let redirect = stack.get("/second/wp-admin").expect_status(301);
    let location = redirect.field("location").unwrap();
    assert!(location.ends_with("/second/wp-admin/"), "{location}");
    let login_page = stack.get("/second/wp-login.php").expect_status(200);
    assert_cache_status(&login_page, "galley; fwd=bypass; detail=path");
    let redirect = stack.get("/second/wp-admin/").expect_status(302);
    let location = redirect.field("location").unwrap();
    assert!(
        location.starts_with("http://net.test/second/wp-login.php?"),
        "{location}"
    );
    for path in [
        "/second/wp-cron.php",
        "/second/wp-admin/admin-ajax.php",
        "/second/xmlrpc.php",
    ] {
        assert_cache_status(&stack.get(path), "galley; fwd=bypass; detail=path");
    }
    let mut admin = stack.visitor();
    admin.jar = login(stack.addr(), NET, "admin", &stack.wordpress.password).unwrap();
    let page = admin.get("/second/").unwrap().expect_status(200);
    assert_cache_status(&page, "galley; fwd=bypass; detail=cookie");
    assert_text(&page, "wpadminbar");
    let network = admin.get("/wp-admin/network/").unwrap().expect_status(200);
    assert_text(&network, "Right Now");
    assert_no_text(&stack.get("/second/"), "wpadminbar");
}
