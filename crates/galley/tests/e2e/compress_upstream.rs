//! Upstreams that compress on their own: Galley stores the uncompressed page.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use galley_testkit::client::Request;
use galley_testkit::origin::Origin;
use galley_testkit::{Apache, ApacheOptions};

use crate::compress::{page, plain, send};
use crate::support::{AssertStatus, SiteBuilder, with_host};

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

/// An origin that ignores `Accept-Encoding`: the path selects the coding.
fn compressing_origin() -> Origin {
    Origin::start(|request, writer| {
        let text = page();
        let (coding, body) = match request.path() {
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
        if request.target.ends_with("chunked") {
            writer.chunked(200, &fields);
            for piece in body.chunks(700) {
                writer.chunk(piece);
            }
            writer.last_chunk();
        } else {
            writer.respond(200, &fields, &body);
        }
    })
    .unwrap()
}

#[test]
fn compressed_upstream_responses_are_decoded_and_compressed_again() {
    let origin = compressing_origin();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let paths = [
        "gzip", "x-gzip", "zlib", "deflate", "br", "zstd", "twice", "identity", "newline",
    ];
    for path in paths {
        for target in [format!("/{path}"), format!("/{path}?chunked")] {
            let before = origin.requests().len();
            let first = send(&site, &target, "identity");
            first.assert_status(200);
            assert!(first.text() == page(), "{target}");
            for name in ["content-encoding", "content-md5"] {
                assert!(!first.has(name) || path == "identity", "{target} {name}");
            }
            assert_eq!(first.field("vary"), Some("Accept-Encoding"), "{target}");
            let hit = send(&site, &target, "identity");
            assert!(hit.is_hit() && hit.text() == page(), "{target}");
            // The strong `ETag` of the upstream identifies the compressed bytes.
            let etag = hit.field("etag").unwrap();
            assert_eq!(etag == "\"v1\"", path == "identity", "{target}");
            for accept in ["gzip", "br"] {
                let compressed = send(&site, &target, accept);
                assert!(plain(&compressed) == page().as_bytes(), "{target} {accept}");
            }
            assert_eq!(origin.requests().len() - before, 1, "{target}");
        }
    }
    let all_identity = origin
        .requests()
        .iter()
        .all(|request| request.field("accept-encoding") == Some("identity"));
    assert!(all_identity);
}

#[test]
fn a_miss_gets_the_coding_that_the_client_accepts() {
    let origin = compressing_origin();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    for (target, accept) in [("/br", "gzip"), ("/gzip", "br"), ("/zstd?chunked", "gzip")] {
        let first = send(&site, target, accept);
        assert_eq!(first.field("content-encoding"), Some(accept), "{target}");
        assert!(plain(&first) == page().as_bytes(), "{target}");
    }
}

#[test]
fn invalid_compressed_bodies_are_errors_and_never_stored() {
    let origin = compressing_origin();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    for target in ["/cut", "/corrupt", "/plain", "/cut?chunked", "/bomb"] {
        for accept in ["identity", "gzip"] {
            let before = origin.requests().len();
            let request = with_host(Request::get(target).field("Accept-Encoding", accept));
            // The response is a 502, or it is truncated if the head was sent before the error.
            if let Ok(response) = request.send(site.addr()) {
                assert_eq!(
                    response.status,
                    502,
                    "{target} {accept}:\n{}",
                    response.excerpt()
                );
            }
            assert_eq!(
                origin.requests().len() - before,
                1,
                "{target} is fetched again"
            );
        }
    }
    let peak = site.peak_memory();
    assert!(peak < 300 << 20, "{peak} bytes of memory");
    assert_eq!(send(&site, "/gzip", "identity").text(), page());
}

#[test]
fn responses_with_an_unknown_coding_are_forwarded_and_not_stored() {
    let origin = compressing_origin();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let response = send(&site, "/unknown", "compress");
    assert_eq!(response.field("content-encoding"), Some("compress"));
    assert_eq!(response.body, b"\x1f\x9d not readable");
    assert!(
        response.cache_status().ends_with("detail=coding"),
        "{}",
        response.cache_status()
    );
    let requests = origin.requests();
    assert_eq!(requests[0].field("accept-encoding"), Some("identity"));
    assert_eq!(requests[1].field("accept-encoding"), Some("compress"));
    assert!(!send(&site, "/unknown", "gzip").is_hit());
}

#[test]
fn bypassed_responses_keep_the_coding_of_the_upstream() {
    let origin = compressing_origin();
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    for target in ["/br", "/twice", "/plain", "/unknown"] {
        let request = Request::get(target)
            .field("Accept-Encoding", "gzip")
            .cookie("wordpress_logged_in_x=1");
        let response = site.send(request);
        assert_eq!(response.field("etag"), Some("\"v1\""), "{target}");
        assert_eq!(response.all("content-encoding").len(), 1, "{target}");
        assert!(
            response.has("content-length") && response.has("content-md5"),
            "{target}"
        );
    }
}

#[test]
fn pages_that_php_compresses_are_stored_uncompressed() {
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
    // PHP does not allow `ob_gzhandler` with `zlib.output_compression`.
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
                hit.excerpt()
            );
            let request = Request::get(page)
                .field("Accept-Encoding", "gzip")
                .cookie("wordpress_logged_in_x=1");
            let bypassed = site.send(request);
            assert!(!bypassed.is_hit());
            assert_eq!(bypassed.all("content-encoding"), ["gzip"], "{page}");
            assert!(plain(&bypassed) == text.as_bytes(), "{page}");
        }
    }
}

#[test]
fn pages_that_apache_always_compresses_are_stored_uncompressed() {
    let builder = SiteBuilder::files();
    let text = format!("<html><body>{}</body></html>", "<p>row</p>".repeat(500));
    builder.scratch.dir("web").unwrap();
    builder.scratch.write("web/a.html", &text).unwrap();
    let options = ApacheOptions {
        extra: "AddOutputFilterByType DEFLATE text/html\nSetEnv force-gzip 1\n\
                SetEnvIf Accept-Encoding identity force-gzip=1\n\
                RequestHeader set Accept-Encoding gzip\n\
                Header set Cache-Control max-age=600"
            .to_owned(),
        ..ApacheOptions::default()
    };
    let (dir, web) = (builder.scratch.join("apache"), builder.scratch.join("web"));
    let apache = Apache::start(&dir, &web, &options).unwrap();
    let site = SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", apache.url())).start();
    let direct = Request::get("/a.html")
        .host("localhost")
        .field("Accept-Encoding", "identity");
    let direct = direct.send(apache.addr()).unwrap();
    assert_eq!(
        direct.field("content-encoding"),
        Some("gzip"),
        "Apache compresses despite `identity`"
    );
    let first = send(&site, "/a.html", "identity");
    assert!(first.text() == text && !first.has("content-encoding"));
    let hit = send(&site, "/a.html", "identity");
    assert!(hit.is_hit() && hit.text() == text);
    let conditional = Request::get("/a.html").field("If-None-Match", hit.field("etag").unwrap());
    site.send(conditional).assert_status(304);
}
