//! Upstreams that code on their own: what is stored is the plain page.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::{Apache, ApacheOptions};

use crate::compress::{page, plain};
use crate::support::{AssertStatus, SiteBuilder, TestSite, with_host};

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(5));
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn zlib(body: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(5));
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn deflate(body: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(5));
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn br(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let parameters = brotli::enc::BrotliEncoderParams::default();
    brotli::BrotliCompress(&mut &body[..], &mut out, &parameters).unwrap();
    out
}

fn zstd(body: &[u8]) -> Vec<u8> {
    zstd::encode_all(body, 3).unwrap()
}

/// Codes as its path says, whatever the client takes.
fn blind() -> Origin {
    Origin::start(|seen, writer| {
        let text = page();
        let (coding, body) = match seen.path() {
            "/gzip" => ("gzip", gzip(text.as_bytes())),
            "/x-gzip" => ("X-GZip", gzip(text.as_bytes())),
            "/zlib" => ("deflate", zlib(text.as_bytes())),
            "/deflate" => ("deflate", deflate(text.as_bytes())),
            "/br" => ("br", br(text.as_bytes())),
            "/zstd" => ("zstd", zstd(text.as_bytes())),
            "/twice" => ("gzip, br", br(&gzip(text.as_bytes()))),
            "/identity" => ("identity", text.into_bytes()),
            "/newline" => ("gzip", [&gzip(text.as_bytes())[..], b"\n"].concat()),
            "/cut" => ("gzip", gzip(text.as_bytes())[..1000].to_vec()),
            "/corrupt" => ("br", vec![0x5a; 3000]),
            "/plain" => ("gzip", text.into_bytes()),
            "/bomb" => ("gzip", gzip(&vec![b' '; 40 << 20])),
            _ => ("compress", b"\x1f\x9d not readable".to_vec()),
        };
        let fields = [
            ("Content-Type", "text/html"),
            ("Content-Encoding", coding),
            ("ETag", "\"v1\""),
            ("Content-MD5", "of the coded bytes"),
            ("Cache-Control", "max-age=600"),
        ];
        if seen.target.ends_with("chunked") {
            writer.chunked(200, &fields);
            for piece in body.chunks(700) {
                writer.chunk(piece);
            }
            writer.last_chunk();
        } else {
            writer.answer(200, &fields, &body);
        }
    })
    .unwrap()
}

fn send(site: &TestSite, target: &str, accept: &str) -> Response {
    site.send(Request::get(target).field("Accept-Encoding", accept))
}

#[test]
fn what_an_upstream_coded_is_stored_plain_and_coded_anew() {
    let origin = blind();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let kinds = [
        "gzip", "x-gzip", "zlib", "deflate", "br", "zstd", "twice", "identity", "newline",
    ];
    for kind in kinds {
        for target in [format!("/{kind}"), format!("/{kind}?chunked")] {
            let before = origin.requests().len();
            let first = send(&site, &target, "identity");
            first.assert_status(200);
            assert!(first.text() == page(), "{target}");
            for name in ["content-encoding", "content-md5"] {
                assert!(!first.has(name) || kind == "identity", "{target} {name}");
            }
            assert_eq!(first.field("vary"), Some("Accept-Encoding"), "{target}");
            let hit = send(&site, &target, "identity");
            assert!(hit.is_hit() && hit.text() == page(), "{target}");
            // The upstream's strong tag named other bytes.
            let etag = hit.field("etag").unwrap();
            assert_eq!(etag == "\"v1\"", kind == "identity", "{target}");
            for accept in ["gzip", "br"] {
                let coded = send(&site, &target, accept);
                assert!(plain(&coded) == page().as_bytes(), "{target} {accept}");
            }
            assert_eq!(origin.requests().len() - before, 1, "{target}");
        }
    }
    let asked = origin
        .requests()
        .iter()
        .all(|seen| seen.field("accept-encoding") == Some("identity"));
    assert!(asked);
}

#[test]
fn the_first_visitor_gets_it_coded_as_it_is_wanted() {
    let origin = blind();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    for (target, accept) in [("/br", "gzip"), ("/gzip", "br"), ("/zstd?chunked", "gzip")] {
        let first = send(&site, target, accept);
        assert_eq!(first.field("content-encoding"), Some(accept), "{target}");
        assert!(plain(&first) == page().as_bytes(), "{target}");
    }
}

#[test]
fn what_is_broken_is_never_stored_and_never_looks_whole() {
    let origin = blind();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    for target in ["/cut", "/corrupt", "/plain", "/cut?chunked", "/bomb"] {
        for accept in ["identity", "gzip"] {
            let before = origin.requests().len();
            let request = with_host(Request::get(target).field("Accept-Encoding", accept));
            // Told by a status, or, when its head has left, by an end that is none.
            if let Ok(answer) = request.send(site.addr()) {
                assert_eq!(
                    answer.status,
                    502,
                    "{target} {accept}:\n{}",
                    answer.beginning()
                );
            }
            assert_eq!(
                origin.requests().len() - before,
                1,
                "{target} is asked for anew"
            );
        }
    }
    let peak = site.peak_memory();
    assert!(peak < 300 << 20, "{peak} bytes of memory");
    assert_eq!(send(&site, "/gzip", "identity").text(), page());
}

#[test]
fn what_cannot_be_read_goes_to_who_asked_and_is_not_kept() {
    let origin = blind();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let answer = send(&site, "/unknown", "compress");
    assert_eq!(answer.field("content-encoding"), Some("compress"));
    assert_eq!(answer.body, b"\x1f\x9d not readable");
    assert!(
        answer.cache_status().ends_with("detail=coding"),
        "{}",
        answer.cache_status()
    );
    let seen = origin.requests();
    assert_eq!(seen[0].field("accept-encoding"), Some("identity"));
    assert_eq!(seen[1].field("accept-encoding"), Some("compress"));
    assert!(!send(&site, "/unknown", "gzip").is_hit());
}

#[test]
fn what_passes_comes_as_the_upstream_coded_it() {
    let origin = blind();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    for target in ["/br", "/twice", "/plain", "/unknown"] {
        let request = Request::get(target)
            .field("Accept-Encoding", "gzip")
            .cookie("wordpress_logged_in_x=1");
        let answer = site.send(request);
        assert_eq!(answer.field("etag"), Some("\"v1\""), "{target}");
        assert_eq!(answer.all("content-encoding").len(), 1, "{target}");
        assert!(
            answer.has("content-length") && answer.has("content-md5"),
            "{target}"
        );
    }
}

#[test]
fn php_that_compresses_is_decoded_for_the_store() {
    const SCRIPT: &str = "<?php
        header('Cache-Control: max-age=600');
        $text = '<html><body>' . str_repeat('<p>row</p>', 500) . '</body></html>';
        if ($_SERVER['REQUEST_URI'] === '/blind') {
            header('Content-Encoding: gzip');
            $text = gzencode($text);
        } elseif ($_SERVER['REQUEST_URI'] === '/handler') {
            ob_start('ob_gzhandler');
        }
        echo $text;";
    let text = format!("<html><body>{}</body></html>", "<p>row</p>".repeat(500));
    // Both at once is what PHP itself refuses.
    for (ini, pages) in [("Off", &["/blind", "/handler"][..]), ("On", &["/setting"])] {
        let site = SiteBuilder::php()
            .ini("zlib.output_compression", ini)
            .file("index.php", SCRIPT)
            .start();
        for page in pages {
            let first = send(&site, page, "gzip");
            first.assert_status(200);
            assert_eq!(first.field("content-encoding"), Some("gzip"), "{page}");
            assert!(plain(&first) == text.as_bytes(), "{page}");
            let hit = send(&site, page, "identity");
            assert!(
                hit.is_hit() && hit.text() == text,
                "{page}: {}",
                hit.beginning()
            );
            let request = Request::get(page)
                .field("Accept-Encoding", "gzip")
                .cookie("wordpress_logged_in_x=1");
            let passed = site.send(request);
            assert!(!passed.is_hit());
            assert_eq!(passed.all("content-encoding"), ["gzip"], "{page}");
            assert!(plain(&passed) == text.as_bytes(), "{page}");
        }
    }
}

#[test]
fn apache_that_compresses_blindly_is_decoded_for_the_store() {
    let plan = SiteBuilder::files();
    let text = format!("<html><body>{}</body></html>", "<p>row</p>".repeat(500));
    plan.scratch.dir("web").unwrap();
    plan.scratch.write("web/a.html", &text).unwrap();
    let options = ApacheOptions {
        extra: "AddOutputFilterByType DEFLATE text/html\nSetEnv force-gzip 1\n\
                SetEnvIf Accept-Encoding identity force-gzip=1\n\
                RequestHeader set Accept-Encoding gzip\n\
                Header set Cache-Control max-age=600"
            .to_owned(),
        ..ApacheOptions::default()
    };
    let (dir, web) = (plan.scratch.join("apache"), plan.scratch.join("web"));
    let apache = Apache::start(&dir, &web, &options).unwrap();
    let site = SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", apache.url())).start();
    let direct = Request::get("/a.html")
        .host("localhost")
        .field("Accept-Encoding", "identity");
    let direct = direct.send(apache.addr()).unwrap();
    assert_eq!(
        direct.field("content-encoding"),
        Some("gzip"),
        "it compresses blindly"
    );
    let first = send(&site, "/a.html", "identity");
    assert!(first.text() == text && !first.has("content-encoding"));
    let hit = send(&site, "/a.html", "identity");
    assert!(hit.is_hit() && hit.text() == text);
    let known = Request::get("/a.html").field("If-None-Match", hit.field("etag").unwrap());
    site.send(known).assert_status(304);
}
