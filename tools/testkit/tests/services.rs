//! Tests the services of the test kit: they start, respond, and restart after a kill.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::{fs::MetadataExt, net::UnixStream},
    path::Path,
    time::{Duration, Instant},
};

use galley_testkit::{
    Apache, ApacheOptions, Cron, Durability, FcgiWrap, FpmListen, FpmOptions, MariaDb, Options,
    PhpFpm, SampleContent, Scratch,
    client::{Browser, Part, Request, login},
    wait_for, wordpress_from_template,
};

const TIMEOUT: Duration = Duration::from_secs(60);

fn is_running(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("{what}: {:.2} s", start.elapsed().as_secs_f64());
    result
}

#[test]
fn a_database_keeps_committed_data_after_a_crash() {
    let scratch = Scratch::new().unwrap();
    let dir = scratch.join("db");
    let mut database = timed("mariadb, first start", || {
        MariaDb::start(&dir, Durability::Keep).unwrap()
    });
    database
        .sql("CREATE DATABASE x; CREATE TABLE x.t (n INT); INSERT INTO x.t VALUES (41), (1)")
        .unwrap();
    assert_eq!(database.sql("SELECT SUM(n) FROM x.t").unwrap(), "42\n");
    database.kill();
    database.restart().unwrap();
    assert_eq!(
        database.sql("SELECT SUM(n) FROM x.t").unwrap(),
        "42\n",
        "committed rows are lost"
    );
    let error = database
        .sql("SELECT nonsense FROM nowhere.t")
        .unwrap_err()
        .to_string();
    assert!(error.contains("nowhere"), "{error}");
    let pid = database.pid();
    assert!(timed("mariadb, stop", || database.stop().unwrap()).success());
    assert!(!is_running(pid));
    let again = timed("mariadb, second start", || {
        MariaDb::start(&dir, Durability::Discard).unwrap()
    });
    assert_eq!(again.sql("SELECT COUNT(*) FROM x.t").unwrap(), "2\n");
}

#[test]
fn a_starting_database_does_not_remove_temporary_tables_of_others() {
    let scratch = Scratch::new().unwrap();
    let dir = scratch.join("db");
    let mut database = MariaDb::start(&dir, Durability::Discard).unwrap();
    // A starting server removes files with such names that its user owns from its temporary directory.
    let foreign = std::env::temp_dir().join(format!("#sql-temptable-{}.MAI", std::process::id()));
    fs::write(&foreign, "").unwrap();
    let user = fs::metadata(dir.join("data")).unwrap();
    std::os::unix::fs::chown(&foreign, Some(user.uid()), Some(user.gid())).unwrap();
    database.restart().unwrap();
    let still_exists = fs::remove_file(&foreign).is_ok();
    assert!(still_exists);
}

#[test]
fn php_fpm_starts_its_workers_and_restarts_at_the_same_address() {
    let scratch = Scratch::new().unwrap();
    for listen in [FpmListen::Unix, FpmListen::Tcp] {
        let options = FpmOptions {
            listen,
            workers: 3,
            ..FpmOptions::default()
        };
        let dir = scratch.dir(&format!("{listen:?}")).unwrap();
        let mut fpm = timed("php-fpm, start", || PhpFpm::start(&dir, &options).unwrap());
        let connect = |address: &str| match address.strip_prefix("unix:") {
            Some(path) => UnixStream::connect(path).map(drop),
            None => TcpStream::connect(address).map(drop),
        };
        let address = fpm.address();
        connect(&address).unwrap();
        let workers = fpm.workers();
        assert_eq!(workers.len(), 3);
        fpm.kill();
        assert!(connect(&address).is_err());
        wait_for("the workers to end", TIMEOUT, || {
            !workers.iter().any(|pid| is_running(*pid))
        });
        fpm.restart().unwrap();
        assert_eq!(fpm.address(), address);
        connect(&address).unwrap();
    }
}

#[test]
fn an_invalid_pool_setting_is_reported_with_the_log() {
    let scratch = Scratch::new().unwrap();
    let options = FpmOptions {
        pool: vec![("pm.nonsense".into(), "1".into())],
        ..FpmOptions::default()
    };
    let error = PhpFpm::start(scratch.path(), &options)
        .unwrap_err()
        .to_string();
    assert!(error.contains("pm.nonsense"), "{error}");
}

#[test]
fn fcgiwrap_runs_a_perl_script() {
    let scratch = Scratch::new().unwrap();
    let wrap = timed("fcgiwrap, start", || {
        FcgiWrap::start(scratch.path(), 2).unwrap()
    });
    let text = "#!/usr/bin/perl\nprint \"Content-Type: text/plain\\r\\n\\r\\n$ENV{QUERY_STRING} from Perl\";\n";
    let script = wrap.script("hello.cgi", text).unwrap();
    let output = send_fastcgi_request(
        wrap.socket(),
        &[
            ("SCRIPT_FILENAME", script.to_str().unwrap()),
            ("QUERY_STRING", "hello"),
            ("REQUEST_METHOD", "GET"),
        ],
    );
    assert!(output.contains("hello from Perl"), "{output}");
}

/// Sends one FastCGI request without a body; returns the raw response as text.
fn send_fastcgi_request(socket: &Path, variables: &[(&str, &str)]) -> String {
    let record = |kind: u8, content: &[u8]| {
        let mut out = vec![1, kind, 0, 1];
        out.extend_from_slice(&u16::try_from(content.len()).unwrap().to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(content);
        out
    };
    let mut params = Vec::new();
    for (name, value) in variables {
        params.push(u8::try_from(name.len()).unwrap());
        params.push(u8::try_from(value.len()).unwrap());
        params.extend_from_slice(name.as_bytes());
        params.extend_from_slice(value.as_bytes());
    }
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    for (kind, content) in [
        (1, &[0, 1, 0, 0, 0, 0, 0, 0][..]),
        (4, &params),
        (4, &[]),
        (5, &[]),
    ] {
        stream.write_all(&record(kind, content)).unwrap();
    }
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

#[test]
fn apache_serves_files_php_and_htaccess() {
    let scratch = Scratch::new().unwrap();
    scratch.write("www/plain.txt", "plain").unwrap();
    scratch
        .write(
            "www/info.php",
            "<?php header('X-Https: ' . ($_SERVER['HTTPS'] ?? 'no')); echo 6 * 7;",
        )
        .unwrap();
    scratch
        .write(
            "www/.htaccess",
            "RewriteEngine On\nRewriteRule ^pretty$ info.php [L]\n",
        )
        .unwrap();
    let options = ApacheOptions {
        extra: "Header set X-Extra yes".into(),
        ..ApacheOptions::default()
    };
    let mut apache = timed("apache, start", || {
        Apache::start(&scratch.join("apache"), &scratch.join("www"), &options).unwrap()
    });
    let get = |apache: &Apache, target: &str| {
        Request::get(target)
            .field("X-Forwarded-Proto", "https")
            .send(apache.addr())
            .unwrap()
    };
    assert_eq!(
        get(&apache, "/plain.txt").expect_status(200).text(),
        "plain"
    );
    let pretty = get(&apache, "/pretty").expect_status(200);
    assert_eq!(
        (
            pretty.text().as_str(),
            pretty.field("X-Https"),
            pretty.field("X-Extra")
        ),
        ("42", Some("on"), Some("yes"))
    );
    let _ = get(&apache, "/.htaccess").expect_status(403);
    let (addr, pid) = (apache.addr(), apache.pid());
    apache.kill();
    assert!(!is_running(pid));
    Request::get("/").send(addr).unwrap_err();
    apache.restart().unwrap();
    assert_eq!(
        get(&apache, "/plain.txt").expect_status(200).text(),
        "plain"
    );
    wait_for("the access log", TIMEOUT, || {
        apache.access_log().contains("GET /plain.txt")
    });
}

#[test]
fn apache_serves_wordpress_with_its_sample_site() {
    let scratch = Scratch::new().unwrap();
    let options = Options {
        mu_plugins: vec![("hello.php".into(), "<?php header('X-Mu: yes');".into())],
        ..Options::default()
    };
    let (database, wordpress) = timed("wordpress from a template", || {
        wordpress_from_template(scratch.path(), &options).unwrap()
    });
    let apache = timed("apache, start", || {
        Apache::start(
            &scratch.join("apache"),
            &wordpress.root,
            &ApacheOptions::default(),
        )
        .unwrap()
    });
    let mut visitor = Browser::new(apache.addr(), "tide.test");
    check_front_page(&mut visitor);
    let rows = [
        ("/the-ferry-runs-again/", 200, "class=\"wp-image-"),
        ("/about/our-crew/join-us/", 200, "Join us"),
        ("/category/harbour/boats/", 200, "Boats"),
        ("/members-only/", 200, "post-password-form"),
        ("/sticky-notice/", 200, "Winter opening hours"),
        ("/private-note/", 404, ""),
        ("/next-week/", 404, ""),
        ("/wp-json/wp/v2/posts?per_page=1", 200, "\"slug\""),
        ("/feed/", 200, "<rss"),
    ];
    for (target, status, expected) in rows {
        let response = visitor.get(target).unwrap().expect_status(status);
        assert!(
            response.text().contains(expected),
            "`{expected}` is missing on {target}"
        );
    }
    let count = |sql: &str| {
        database
            .sql(&format!("SELECT COUNT(*) FROM wordpress.{sql}"))
            .unwrap()
            .trim()
            .to_owned()
    };
    assert_eq!(
        count("wp_posts WHERE post_type = 'post' AND post_status = 'publish'"),
        "62"
    );
    assert_eq!(count("wp_comments"), "120");
    assert_eq!(
        wordpress.php("echo get_option('blogname');").unwrap(),
        "The Tide Table"
    );
    check_upload_by_administrator(&apache, &wordpress.password);
}

/// Checks the front page: the header of the must-use plugin, the size, and content of the sample site.
fn check_front_page(visitor: &mut Browser) {
    let front = timed("front page", || visitor.get("/").unwrap()).expect_status(200);
    assert_eq!(front.field("X-Mu"), Some("yes"));
    let page = front.text();
    assert!(
        (30_000..60_000).contains(&page.len()),
        "{} bytes",
        page.len()
    );
    for expected in [
        "Winter opening hours",
        "The ferry runs again",
        "Recent comments",
        "Archives",
        "srcset=",
    ] {
        assert!(
            page.contains(expected),
            "`{expected}` is missing on the front page"
        );
    }
    assert!(
        !page.contains("gravatar"),
        "the page has URLs of other hosts"
    );
}

/// Logs in, uploads an image, and checks that the media library lists it.
fn check_upload_by_administrator(apache: &Apache, password: &str) {
    let mut admin = Browser::new(apache.addr(), "tide.test");
    admin.jar = login(apache.addr(), "tide.test", "admin", password).unwrap();
    let screen = admin
        .get("/wp-admin/media-new.php")
        .unwrap()
        .expect_status(200)
        .text();
    let nonce = screen
        .split("name=\"_wpnonce\" value=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .to_owned();
    let image = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";
    let parts = [
        Part {
            name: "_wpnonce",
            file: None,
            content: nonce.as_bytes(),
        },
        Part {
            name: "html-upload",
            file: None,
            content: b"Upload",
        },
        Part {
            name: "async-upload",
            file: Some(("dot.gif", "image/gif")),
            content: image,
        },
    ];
    let _ = admin
        .upload("/wp-admin/media-new.php", &parts)
        .unwrap()
        .expect_status(302);
    let listed = admin
        .get("/wp-json/wp/v2/media?search=dot")
        .unwrap()
        .expect_status(200)
        .text();
    assert!(listed.contains("dot.gif"), "{listed}");
    assert!(login(apache.addr(), "tide.test", "admin", "wrong").is_err());
}

#[test]
fn a_plain_installation_uses_its_configured_url() {
    let scratch = Scratch::new().unwrap();
    let options = Options {
        url: Some("https://fixed.test".into()),
        sample: SampleContent::None,
        cron: Cron::OnVisits,
        extra_config: "define( 'WP_POST_REVISIONS', 3 );".into(),
        ..Options::default()
    };
    let (_database, wordpress) = timed("plain wordpress from a template", || {
        wordpress_from_template(scratch.path(), &options).unwrap()
    });
    let output = wordpress.php("echo home_url('/x'), ' ', WP_POST_REVISIONS, ' ', defined('DISABLE_WP_CRON') ? 'off' : 'on';").unwrap();
    assert_eq!(output, "https://fixed.test/x 3 on");
    let links = files_below(&wordpress.root)
        .into_iter()
        .filter(|path| path.is_symlink())
        .count();
    assert_eq!(links, 0, "the copy must have no symbolic links");
    let program = fs::metadata(wordpress.root.join("wp-includes/version.php")).unwrap();
    assert!(
        program.permissions().readonly(),
        "the file is a hard link to the template, so it must be read-only"
    );
}

fn files_below(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            all.extend(files_below(&path));
        }
        all.push(path);
    }
    all
}

#[test]
fn concurrent_uses_of_a_template_are_safe() {
    let options = Options {
        sample: SampleContent::None,
        ..Options::default()
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let scratch = Scratch::new().unwrap();
                let (database, _) = wordpress_from_template(scratch.path(), &options).unwrap();
                assert_eq!(
                    database
                        .sql("SELECT COUNT(*) FROM wordpress.wp_posts WHERE post_type = 'post'")
                        .unwrap(),
                    "1\n"
                );
            });
        }
    });
}
