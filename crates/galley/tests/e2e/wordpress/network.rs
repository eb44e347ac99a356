//! A network of sites in directories: each site's pages, administration and files, under one host.

use std::fmt::Write as _;
use std::fs;

use galley_testkit::SampleContent;
use galley_testkit::client::login;

use super::stack::{
    HIT, HOUR, Kind, STORED, SiteBuilder, Stack, assert_no_text, assert_refetched, assert_text,
    assert_way,
};

both_alone! { a_network_in_directories }

/// The first site's host.
pub const NET: &str = "net.test";

/// The second site's, where it has one of its own.
pub const SECOND: &str = "second.net.test";

/// What WordPress itself tells people to write.
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

/// A network of two sites at the first site of the plan, made of a single one by WordPress's own functions: in directories, or, where
/// the plan has names below its host, with a host of its own. Each has a post `note`, of the same number.
pub fn network(kind: Kind, plan: &mut SiteBuilder) -> Stack {
    let is_host = plan.has_names_below;
    let (domain, path, home) = if is_host {
        (SECOND, "/", "http://second.net.test")
    } else {
        (NET, "/second/", "http://net.test/second")
    };
    plan.options.sample = SampleContent::None;
    // The constants only hold once the tables are there.
    let _ = write!(
        plan.options.extra_config,
        "if ( PHP_SAPI === 'cli' ) {{ $_SERVER['HTTP_HOST'] = 'net.test'; }}
if ( file_exists( __DIR__ . '/../notes/network' ) ) {{
	define( 'MULTISITE', true );
	define( 'SUBDOMAIN_INSTALL', {is_host} );
	define( 'DOMAIN_CURRENT_SITE', 'net.test' );
	define( 'PATH_CURRENT_SITE', '/' );
	define( 'SITE_ID_CURRENT_SITE', 1 );
	define( 'BLOG_ID_CURRENT_SITE', 1 );
}}"
    );
    let stack = Stack::start(kind, plan);
    // That no name server knows the other hosts is the one thing that may be wrong.
    stack.php(&format!(
        "require_once ABSPATH . 'wp-admin/includes/upgrade.php';
         require_once ABSPATH . 'wp-admin/includes/network.php';
         foreach ($wpdb->tables('ms_global') as $table => $name) {{ $wpdb->$table = $name; }}
         install_network();
         $done = populate_network(1, 'net.test', 'admin@example.org', 'The Network', '/', {is_host});
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

fn a_network_in_directories(kind: Kind) {
    let mut plan = SiteBuilder::new([(NET, format!("multisite = true\n{HOUR}"))]);
    let stack = network(kind, &mut plan);
    for (path, title, own) in [
        ("/note/", "Note of 1", "http://net.test/wp-includes/"),
        (
            "/second/note/",
            "Note of 2",
            "http://net.test/second/wp-includes/",
        ),
        ("/second/", "The Second", "http://net.test/second/note/"),
    ] {
        let first = stack.get(path).expect_status(200);
        assert_way(&first, STORED);
        assert_text(&first, title);
        assert_text(&first, own);
        assert_way(&stack.get(path), HIT);
    }
    files_are_those_of_the_network(&stack);
    each_site_has_its_administration(&stack);
    // The sites share a host; an order for one is given by its directory.
    stack.get("/second/");
    stack.purge(&["--site", NET, "--prefix", "/second/"]);
    assert_refetched(&stack.get("/second/note/"));
    assert_way(&stack.get("/note/"), HIT);
}

fn files_are_those_of_the_network(stack: &Stack) {
    let root = &stack.wordpress.root;
    for file in [
        "wp-includes/js/jquery/jquery.min.js",
        "wp-admin/css/login.min.css",
    ] {
        let wanted = fs::read(root.join(file)).unwrap();
        for path in [format!("/{file}"), format!("/second/{file}")] {
            let answer = stack.get(&path).expect_status(200);
            assert_way(&answer, "galley; detail=file");
            assert!(answer.body == wanted, "{path}");
        }
    }
    let uploads = root.join("wp-content/uploads/sites/2");
    fs::create_dir_all(&uploads).unwrap();
    fs::write(uploads.join("a.txt"), "a file of the second").unwrap();
    fs::write(uploads.join("evil.php"), "<?php echo 'RAN', 6 * 7;").unwrap();
    let answer = stack.get("/second/wp-content/uploads/sites/2/a.txt");
    assert_eq!(answer.text(), "a file of the second");
    for path in [
        "/second/wp-content/uploads/sites/2/evil.php",
        "/second/wp-config.php",
        "/second/.htaccess",
        "/second/wp-content/uploads/sites/2/evil.php/x.png",
    ] {
        let answer = stack.get(path).expect_status(403);
        let text = answer.text();
        assert!(!text.contains("RAN42") && !text.contains("<?php") && !text.contains("Rewrite"));
    }
}

fn each_site_has_its_administration(stack: &Stack) {
    let moved = stack.get("/second/wp-admin").expect_status(301);
    let location = moved.field("location").unwrap();
    assert!(location.ends_with("/second/wp-admin/"), "{location}");
    let login_page = stack.get("/second/wp-login.php").expect_status(200);
    assert_way(&login_page, "galley; fwd=bypass; detail=path");
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
        assert_way(&stack.get(path), "galley; fwd=bypass; detail=path");
    }
    let mut admin = stack.visitor();
    admin.jar = login(stack.addr(), NET, "admin", &stack.wordpress.password).unwrap();
    let page = admin.get("/second/").unwrap().expect_status(200);
    assert_way(&page, "galley; fwd=bypass; detail=cookie");
    assert_text(&page, "wpadminbar");
    let network = admin.get("/wp-admin/network/").unwrap().expect_status(200);
    assert_text(&network, "Right Now");
    assert_no_text(&stack.get("/second/"), "wpadminbar");
}
