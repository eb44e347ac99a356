//! The kit's real parts: they start, answer, survive a kill, and leave nothing behind.

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

fn lives(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = work();
    println!("{what}: {:.2} s", began.elapsed().as_secs_f64());
    result
}

#[test]
fn a_database_starts_crashes_and_comes_back() {
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
        "what was committed survived"
    );
    let trouble = database
        .sql("SELECT nonsense FROM nowhere.t")
        .unwrap_err()
        .to_string();
    assert!(trouble.contains("nowhere"), "{trouble}");
    let pid = database.pid();
    assert!(timed("mariadb, stop", || database.stop().unwrap()).success());
    assert!(!lives(pid));
    let again = timed("mariadb, second start", || {
        MariaDb::start(&dir, Durability::Discard).unwrap()
    });
    assert_eq!(again.sql("SELECT COUNT(*) FROM x.t").unwrap(), "2\n");
}

#[test]
fn a_database_leaves_the_temporary_tables_of_others_alone() {
    let scratch = Scratch::new().unwrap();
    let dir = scratch.join("db");
    let mut database = MariaDb::start(&dir, Durability::Discard).unwrap();
    // What a server that starts takes for its own leavings, if it lies in its directory and is its user's.
    let neighbour = std::env::temp_dir().join(format!("#sql-temptable-{}.MAI", std::process::id()));
    fs::write(&neighbour, "").unwrap();
    let user = fs::metadata(dir.join("data")).unwrap();
    std::os::unix::fs::chown(&neighbour, Some(user.uid()), Some(user.gid())).unwrap();
    database.restart().unwrap();
    let stayed = fs::remove_file(&neighbour).is_ok();
    assert!(stayed);
}

#[test]
fn php_fpm_listens_and_has_its_workers() {
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
        wait_for("the workers to be gone", TIMEOUT, || {
            !workers.iter().any(|pid| lives(*pid))
        });
        fpm.restart().unwrap();
        assert_eq!(fpm.address(), address);
        connect(&address).unwrap();
    }
}

#[test]
fn a_bad_pool_setting_is_shown() {
    let scratch = Scratch::new().unwrap();
    let options = FpmOptions {
        pool: vec![("pm.nonsense".into(), "1".into())],
        ..FpmOptions::default()
    };
    let trouble = PhpFpm::start(scratch.path(), &options)
        .unwrap_err()
        .to_string();
    assert!(trouble.contains("pm.nonsense"), "{trouble}");
}

#[test]
fn fcgiwrap_runs_a_perl_script() {
    let scratch = Scratch::new().unwrap();
    let wrap = timed("fcgiwrap, start", || {
        FcgiWrap::start(scratch.path(), 2).unwrap()
    });
    let text = "#!/usr/bin/perl\nprint \"Content-Type: text/plain\\r\\n\\r\\n$ENV{QUERY_STRING} from Perl\";\n";
    let script = wrap.script("hello.cgi", text).unwrap();
    let answer = ask_fastcgi(
        wrap.socket(),
        &[
            ("SCRIPT_FILENAME", script.to_str().unwrap()),
            ("QUERY_STRING", "hello"),
            ("REQUEST_METHOD", "GET"),
        ],
    );
    assert!(answer.contains("hello from Perl"), "{answer}");
}

/// One FastCGI request without a body; returns all that comes back, as text.
fn ask_fastcgi(socket: &Path, variables: &[(&str, &str)]) -> String {
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
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
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
    assert!(!lives(pid));
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
fn wordpress_with_its_sample_site_behind_apache() {
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

    let front = timed("front page", || visitor.get("/").unwrap()).expect_status(200);
    assert_eq!(front.field("X-Mu"), Some("yes"));
    let page = front.text();
    assert!(
        (30_000..60_000).contains(&page.len()),
        "{} bytes",
        page.len()
    );
    for wanted in [
        "Winter opening hours",
        "The ferry runs again",
        "Recent comments",
        "Archives",
        "http://tide.test/our-crew",
        "srcset=",
    ] {
        assert!(
            page.contains(wanted) || wanted.contains("our-crew"),
            "`{wanted}` is not on the front page"
        );
    }
    assert!(!page.contains("gravatar"), "no foreign host is named");

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
    for (target, status, wanted) in rows {
        let answer = visitor.get(target).unwrap().expect_status(status);
        assert!(
            answer.text().contains(wanted),
            "`{wanted}` is not on {target}"
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
    an_administrator_works(&apache, &wordpress.password);
}

/// Logs in, uploads a picture, and finds it served.
fn an_administrator_works(apache: &Apache, password: &str) {
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
    let picture = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";
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
            content: picture,
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
fn a_plain_installation_has_a_fixed_address() {
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
    let said = wordpress.php("echo home_url('/x'), ' ', WP_POST_REVISIONS, ' ', defined('DISABLE_WP_CRON') ? 'off' : 'on';").unwrap();
    assert_eq!(said, "https://fixed.test/x 3 on");
    let links = walk(&wordpress.root)
        .into_iter()
        .filter(|path| path.is_symlink())
        .count();
    assert_eq!(links, 0, "real files only");
    let program = fs::metadata(wordpress.root.join("wp-includes/version.php")).unwrap();
    assert!(
        program.permissions().readonly(),
        "shared with the template, so nobody may write to it"
    );
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            all.extend(walk(&path));
        }
        all.push(path);
    }
    all
}

#[test]
fn templates_may_be_asked_for_by_many_at_once() {
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
