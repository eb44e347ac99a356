//! Files that PHP or an HTTP upstream names (`X-Accel-Redirect`, `X-Sendfile`): sent as nginx sends them, never stored, and no
//! header reaches the visitor. Also links out of the root, roots behind links, and a WordPress in a folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::{Nginx, wait_for};

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, with_host};

/// `/STEP/NAME/` with `?to=...`: counts its runs, and names a file.
const DOWNLOAD: &str = "<?php $name = explode('/', $_SERVER['REQUEST_URI'])[2] ?? '';\
    file_put_contents(__DIR__ . '/../notes/' . $name, 'x', FILE_APPEND);\
    header('X-Accel-Redirect: ' . $_GET['to']); header('X-Robots-Tag: noindex'); header('Set-Cookie: a=b');\
    header('Content-Type: application/zip'); header('Content-Disposition: attachment; filename=\"x.zip\"');";

/// Number of runs of the program for a name.
fn runs(site: &TestSite, name: &str) -> usize {
    fs::read(site.notes().join(name)).map_or(0, |text| text.len())
}

const ZIP: &str = "0123456789 the bytes of an archive";

fn shop() -> SiteBuilder {
    SiteBuilder::php()
        .file("index.php", DOWNLOAD)
        .file("other.php", "<?php echo 'other';")
        .file("wp-content/uploads/shop/.htaccess", "Deny from all")
        .file("wp-content/uploads/shop/a b.zip", ZIP)
        .file("private/c.zip", ZIP)
        .file("public.txt", "public")
}

const TO: &str = "/wp-content/uploads/shop/a%2520b.zip";

#[test]
fn a_file_that_php_names_is_sent_with_ranges_and_conditions_and_never_stored() {
    let site = shop().site("internal = [\"/private/\"]").start();
    // A GET of anybody is fetched for all, that of a member and a POST are passed.
    let cookies = ["", "wordpress_logged_in_x=1"];
    for (number, cookie) in cookies.into_iter().enumerate() {
        let mut expected = 0;
        let target = format!("/download/n{number}/?to={TO}");
        let mut send = |request: Request| {
            expected += 1;
            let response = site.send(request.cookie(cookie));
            assert!(!response.is_hit(), "{}", response.excerpt());
            for name in ["x-accel-redirect", "x-robots-tag"] {
                assert!(!response.has(name), "{name}: {}", response.excerpt());
            }
            let name = format!("n{number}");
            wait_for("one run for each request", TIMEOUT, || {
                runs(&site, &name) == expected
            });
            response
        };
        let whole = send(Request::get(&target)).expect_status(200);
        assert_eq!(whole.text(), ZIP);
        for (name, value) in [
            ("content-type", "application/zip"),
            ("content-disposition", "attachment; filename=\"x.zip\""),
            ("set-cookie", "a=b"),
            ("accept-ranges", "bytes"),
            ("content-length", "34"),
        ] {
            assert_eq!(whole.field(name), Some(value), "{}", whole.excerpt());
        }
        let private = whole.field("cache-control").unwrap();
        assert!(private.contains("private"), "{private}");
        let etag = whole.field("etag").unwrap();
        let part = send(Request::get(&target).field("Range", "bytes=2-4")).expect_status(206);
        assert_eq!(part.text(), "234");
        assert_eq!(part.field("content-range"), Some("bytes 2-4/34"));
        let several = send(Request::get(&target).field("Range", "bytes=0-1,5-6"));
        assert!(
            several
                .expect_status(206)
                .text()
                .contains("Content-Type: application/zip")
        );
        let beyond = send(Request::get(&target).field("Range", "bytes=99-"));
        assert_eq!(
            beyond.expect_status(416).field("content-range"),
            Some("bytes */34")
        );
        let known = send(Request::get(&target).field("If-None-Match", etag)).expect_status(304);
        assert_eq!(known.field("set-cookie"), Some("a=b"));
        let head = send(Request::head(&target)).expect_status(200);
        assert_eq!(
            (head.body.len(), head.field("content-length")),
            (0, Some("34"))
        );
        let posted = send(Request::post(&target, "text/plain", "x")).expect_status(200);
        assert_eq!(posted.text(), ZIP);
    }
    // Files of internal folders, which visitors do not get.
    assert_eq!(
        site.get("/download/p/?to=/private/c.zip")
            .expect_status(200)
            .text(),
        ZIP
    );
    for path in [
        "/private/c.zip",
        "//private//c.zip",
        "/private/",
        "/private/x.php",
    ] {
        let refused = site.get(path).expect_status(404);
        assert!(!refused.text().contains(ZIP), "{path}");
    }
    site.get("/wp-content/uploads/shop/a%20b.zip")
        .assert_status(403);
}

fn shop_with_secrets() -> SiteBuilder {
    let builder = shop().file(".env", "secret");
    fs::write(builder.scratch.join("secret.txt"), "secret").unwrap();
    symlink("../secret.txt", builder.scratch.join("root/link.txt")).unwrap();
    builder
}

#[test]
fn what_is_no_file_or_no_file_for_visitors_is_an_error() {
    let site = shop_with_secrets().start();
    for (to, status) in [
        ("/missing.zip", 404),
        ("/other.php/x", 404),
        ("/other.php", 502),
        ("/index.php", 502),
        ("/.env", 502),
        ("/../secret.txt", 502),
        ("/public.txt/%252e%252e/../secret.txt", 502),
        ("/public.txt%2500", 502),
        ("/link.txt", 502),
        ("@named", 502),
        ("http://127.0.0.1/x", 502),
    ] {
        for cookie in ["", "wordpress_logged_in_x=1"] {
            let request = Request::get(&format!("/download/e/?to={to}")).cookie(cookie);
            let response = site.send(request).expect_status(status);
            let text = response.text();
            assert!(
                !text.contains("secret") && !text.contains("<?php"),
                "{to}: {text}"
            );
            assert!(
                !response.has("x-accel-redirect") && !text.is_empty(),
                "{to}"
            );
        }
    }
    site.get("/public.txt").assert_status(200);
}

#[test]
fn the_log_says_why_a_file_cannot_be_sent() {
    for (to, reason) in [
        ("/missing.zip", "no such file"),
        ("/other.php", "never sent"),
        ("/link.txt", "outside `root`"),
    ] {
        // Lines about upstreams are limited per second, so each case has a site.
        let site = shop_with_secrets().start();
        site.get(&format!("/download/e/?to={to}"));
        wait_for("the reason in the log", TIMEOUT, || {
            let log = site.galley.log();
            log.lines()
                .any(|line| line.contains(to) && line.contains(reason))
        });
    }
}

#[test]
fn the_response_is_that_of_nginx() {
    let site = shop().start();
    let socket = site.scratch.join("fpm/php-fpm.sock");
    let root = site.scratch.join("root");
    let lines = format!(
        "server {{ listen {{listen}}; server_name example.test; root {root}; location / {{ include /etc/nginx/fastcgi_params;\
         fastcgi_param SCRIPT_FILENAME {root}/index.php; fastcgi_pass unix:{socket}; }}\
         location /private/ {{ internal; }} location /public.txt {{ }} }}",
        root = root.display(),
        socket = socket.display()
    );
    let nginx = match Nginx::start(&site.scratch.join("nginx"), &lines) {
        Ok(nginx) => nginx,
        Err(error) => panic!("{error}"),
    };
    let shown = |response: &Response| {
        let fields = [
            "content-type",
            "content-disposition",
            "set-cookie",
            "content-length",
            "content-range",
            "x-robots-tag",
            "x-accel-redirect",
        ];
        let fields: Vec<_> = fields
            .iter()
            .map(|name| response.field(name).map(str::to_owned))
            .collect();
        (response.status, response.text(), fields)
    };
    for (to, range) in [
        ("/private/c.zip", ""),
        ("/public.txt", ""),
        ("/private/c.zip", "bytes=3-7"),
    ] {
        let mut request = with_host(Request::get(&format!("/download/x/?to={to}")));
        if !range.is_empty() {
            request = request.field("Range", range);
        }
        let mut connection = Connection::open(nginx.addr()).unwrap();
        let expected = connection.exchange(&request).unwrap();
        assert_eq!(shown(&site.send(request)), shown(&expected), "{to} {range}");
    }
}

#[test]
fn http_upstreams_name_files_too() {
    let folder = tempfile_folder();
    let path = folder.clone();
    let origin = Origin::start(move |request, writer| {
        let field = match request.path() {
            "/accel" => "X-Accel-Redirect: /protected/sub/b.zip".to_owned(),
            "/sendfile" => format!("X-Sendfile: {path}/sub/b.zip"),
            "/litespeed" => "X-LiteSpeed-Location: /protected/sub/b.zip".to_owned(),
            "/slow" => "X-Accel-Limit-Rate: 40000\r\nX-Accel-Redirect: /protected/large.bin".to_owned(),
            "/elsewhere" => "X-Sendfile: /etc/passwd".to_owned(),
            _ => "X-Accel-Charset: koi8-r\r\nX-Accel-Redirect: /protected/plain.txt".to_owned(),
        };
        let content_type = if request.path() == "/text" { "text/plain" } else { "application/zip" };
        writer.write(
            format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nCache-Control: max-age=600\r\n{field}\r\nContent-Length: 0\r\n\r\n")
                .as_bytes(),
        );
    })
    .unwrap();
    for preset in ["wordpress", "none"] {
        let line = format!("internal = [{{ path = \"/protected/\", folder = \"{folder}\" }}]");
        let site = SiteBuilder::origin(&origin, preset).site(&line).start();
        for path in ["/accel", "/sendfile", "/litespeed", "/accel"] {
            for _ in 0..2 {
                let response = site.get(path).expect_status(200);
                assert_eq!(response.text(), ZIP, "{path}");
                assert_eq!(response.field("cache-control"), Some("max-age=600"));
                assert!(!response.is_hit() && !response.has("x-sendfile"), "{path}");
                assert!(!response.has("x-litespeed-location") && !response.has("x-accel-redirect"));
            }
        }
        let text = site.get("/text").expect_status(200);
        assert_eq!(
            text.field("content-type"),
            Some("text/plain; charset=koi8-r")
        );
        let began = Instant::now();
        assert_eq!(site.get("/slow").expect_status(200).body.len(), 50_000);
        assert!(
            began.elapsed() > Duration::from_millis(900),
            "{:?}",
            began.elapsed()
        );
        let refused = site.get("/elsewhere").expect_status(502);
        assert!(!refused.text().contains("root:"), "{}", refused.excerpt());
        site.get("/protected/sub/b.zip").assert_status(404);
    }
    fs::remove_dir_all(Path::new(&folder)).unwrap();
}

/// A folder that is not below that of a site.
fn tempfile_folder() -> String {
    let folder = std::env::temp_dir().join(format!("galley-sent-{}", std::process::id()));
    fs::create_dir_all(folder.join("sub")).unwrap();
    fs::write(folder.join("sub/b.zip"), ZIP).unwrap();
    fs::write(folder.join("plain.txt"), "text").unwrap();
    fs::write(folder.join("large.bin"), vec![b'x'; 50_000]).unwrap();
    folder.display().to_string()
}

#[test]
fn uploads_behind_a_link_are_sent_from_the_named_folder() {
    for (line, status) in [
        ("link_targets = [\"{dir}/shared/uploads\"]", 200),
        ("", 404),
    ] {
        let builder = SiteBuilder::files().site(line);
        let shared = builder.scratch.dir("shared/uploads").unwrap();
        fs::write(shared.join("a.jpg"), "picture").unwrap();
        fs::write(builder.scratch.join("shared/secret.txt"), "secret").unwrap();
        fs::create_dir_all(builder.scratch.join("root/wp-content")).unwrap();
        symlink(
            "../../shared/uploads",
            builder.scratch.join("root/wp-content/uploads"),
        )
        .unwrap();
        symlink(
            "../shared/secret.txt",
            builder.scratch.join("root/secret.txt"),
        )
        .unwrap();
        let site = builder.start();
        let response = site.get("/wp-content/uploads/a.jpg").expect_status(status);
        assert_eq!(response.text() == "picture", status == 200);
        site.get("/secret.txt").assert_status(404);
    }
}

#[test]
fn a_root_below_a_link_follows_the_next_release() {
    let builder = SiteBuilder::files();
    for release in ["1", "2"] {
        let web = builder
            .scratch
            .dir(&format!("releases/{release}/web"))
            .unwrap();
        fs::write(web.join("a.txt"), release).unwrap();
        fs::write(web.join("large.bin"), release.repeat(3_000_000)).unwrap();
    }
    let current = builder.scratch.join("current");
    symlink("releases/1", &current).unwrap();
    let (scratch, fpm, text) = builder.prepare();
    let text = text.replace("/root\"", "/current/web\"");
    let galley = galley_testkit::Galley::start_binary(
        crate::support::binary(),
        &scratch.join("galley"),
        &text,
    )
    .unwrap();
    let site = TestSite {
        galley,
        fpm,
        scratch,
    };
    assert_eq!(site.get("/a.txt").expect_status(200).text(), "1");
    symlink("releases/2", site.scratch.join("next")).unwrap();
    fs::rename(site.scratch.join("next"), &current).unwrap();
    wait_for("the next release", TIMEOUT, || {
        site.get("/a.txt").expect_status(200).text() == "2"
    });
    let large = site.get("/large.bin").expect_status(200);
    assert!(large.body.iter().all(|byte| *byte == b'2'));
}

#[test]
fn a_wordpress_in_a_folder_has_its_own_permalinks() {
    let front = |name: &str| {
        format!(
            "<?php header('X-Name: {name}'); echo '<html><body>{name} ', $_SERVER['SCRIPT_NAME'], '</body></html>';"
        )
    };
    let site = SiteBuilder::php()
        .file("index.php", front("root"))
        .file("wp-blog-header.php", "")
        .file("blog/index.php", front("blog"))
        .file("blog/wp-blog-header.php", "")
        .file("blog/wp-content/uploads/a.txt", "a")
        .file("silent/index.php", "")
        .start();
    for _ in 0..2 {
        for (path, name) in [
            ("/blog/2026/11/hello/", "blog"),
            ("/blog/", "blog"),
            ("/blog/wp-content/uploads/missing.txt", "blog"),
            ("/2026/11/hello/", "root"),
            ("/silent/missing/", "root"),
        ] {
            let response = site.get(path).expect_status(200);
            assert_eq!(response.field("x-name"), Some(name), "{path}");
        }
    }
    assert!(site.get("/blog/2026/11/hello/").is_hit());
}

/// Debian's WordPress has such a link to `/etc/wordpress/htaccess`.
#[test]
fn a_htaccess_behind_a_link_out_of_the_root_applies() {
    let builder = SiteBuilder::files()
        .file("a.txt", "a")
        .file("closed.txt", "closed");
    let rules = builder.scratch.dir("etc").unwrap().join("htaccess");
    fs::write(rules, "<Files closed.txt>\nDeny from all\n</Files>").unwrap();
    symlink("../etc/htaccess", builder.scratch.join("root/.htaccess")).unwrap();
    let site = builder.start();
    site.get("/a.txt").assert_status(200);
    site.get("/closed.txt").assert_status(403);
}
