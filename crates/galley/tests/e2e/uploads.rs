//! Large request bodies: complete, without much memory, and without a PHP slot during their transfer.

use std::io::{Read, Write};
use std::net::TcpStream;

use galley_testkit::client::Request;
use galley_testkit::origin::FastCgiOrigin;

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, random_bytes, sha256, with_host};

const HASH: &str = "<?php header('Content-Type: text/plain'); $h = hash_init('sha256'); $in = fopen('php://input', 'r'); $n = 0; \
    while (!feof($in)) { $d = fread($in, 65536); $n += strlen($d); hash_update($h, $d); } echo $n, ' ', hash_final($h);";

#[test]
fn an_upload_of_100_mib_is_complete_and_uses_little_memory() {
    let site = SiteBuilder::php()
        .file("hash.php", HASH)
        .server("request_body = \"200MiB\"")
        .ini("post_max_size", "300M")
        .ini("memory_limit", "64M")
        .start();
    site.send(Request::post(
        "/hash.php",
        "application/octet-stream",
        random_bytes(200_000),
    ))
    .assert_status(200);
    let before = site.peak_memory();
    let body = random_bytes(100 * 1024 * 1024);
    let expected = format!("{} {}", body.len(), sha256(&body));
    let mut stream = TcpStream::connect(site.addr()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    let head = format!(
        "POST /hash.php HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(
        response.starts_with("HTTP/1.1 200 ") && response.contains(&expected),
        "expected {expected}, got\n{response}"
    );
    let grown = site.grown_since(before);
    // 11 to 23 MB, depending on the number of helper threads that write and read the file. Each uses some memory.
    assert!(grown < 32 * 1024 * 1024, "{grown} bytes for one upload");
}

#[test]
fn uploads_of_various_sizes_are_complete_with_both_framings() {
    let site = SiteBuilder::php().file("hash.php", HASH).start();
    for length in [
        0, 1, 65_535, 65_536, 65_537, 131_072, 262_144, 1_000_003, 3_000_000,
    ] {
        let body = random_bytes(length);
        let chunks: Vec<&[u8]> = body.chunks(50_021).collect();
        let expected = format!("{length} {}", sha256(&body));
        let chunked = site.send(
            Request::new("POST", "/hash.php")
                .field("Content-Type", "application/octet-stream")
                .chunked(&chunks),
        );
        assert_eq!(
            chunked.expect_status(200).text(),
            expected,
            "{length} bytes, chunked"
        );
        let with_length = site.send(Request::post("/hash.php", "application/octet-stream", body));
        assert_eq!(
            with_length.expect_status(200).text(),
            expected,
            "{length} bytes, with Content-Length"
        );
    }
}

#[test]
fn php_gets_the_files_of_a_multipart_form() {
    use galley_testkit::client::Part;
    let script = "<?php echo $_POST['title'], ' ', $_FILES['f']['name'], ' ', $_FILES['f']['size'], ' ', hash_file('sha256', $_FILES['f']['tmp_name']);";
    let site = SiteBuilder::php()
        .file("upload.php", script)
        .ini("upload_max_filesize", "50M")
        .ini("post_max_size", "60M")
        .start();
    let content = random_bytes(5_000_000);
    let parts = [
        Part {
            name: "title",
            file: None,
            content: b"a picture",
        },
        Part {
            name: "f",
            file: Some(("p.png", "image/png")),
            content: &content,
        },
    ];
    let response = site
        .send(Request::multipart("/upload.php", &parts))
        .expect_status(200);
    assert_eq!(
        response.text(),
        format!("a picture p.png 5000000 {}", sha256(&content))
    );
}

#[test]
fn a_response_before_the_end_of_the_upload_is_sent() {
    // The application ends the request before it has read the body, and then keeps or closes the connection.
    let responder = FastCgiOrigin::start(|request, writer| {
        let closes = request.param("REQUEST_URI").contains("close");
        writer.respond("Status: 403 Forbidden\r\nContent-Type: text/plain", b"no");
        writer.end(0, 0);
        if closes {
            writer.close();
        }
    })
    .unwrap();
    let site = SiteBuilder::upstream_line(&format!("php = \"{}\"", responder.address()))
        .file("index.php", "")
        .site("in_flight = 1")
        .start();
    for target in ["/early", "/early?close", "/early", "/early?close"] {
        let response = site.send(Request::post(
            target,
            "application/octet-stream",
            random_bytes(20 * 1024 * 1024),
        ));
        assert_eq!(response.expect_status(403).text(), "no", "{target}");
        let next = site.send(Request::post("/next", "text/plain", "small"));
        assert_eq!(next.expect_status(403).text(), "no", "after {target}");
    }
}

#[test]
fn the_response_of_a_script_that_ignores_its_input_is_sent() {
    let site = SiteBuilder::php()
        .file("ignores.php", "<?php echo 'ignored';")
        .site("in_flight = 1")
        .start();
    for _ in 0..3 {
        let response = site.send(Request::post(
            "/ignores.php",
            "application/octet-stream",
            random_bytes(20 * 1024 * 1024),
        ));
        assert_eq!(response.expect_status(200).text(), "ignored");
    }
    site.get("/next").assert_status(200);
}

#[test]
fn a_stalled_or_aborted_upload_occupies_no_php_slot() {
    let site = SiteBuilder::php().workers(1).site("in_flight = 1").start();
    let head = format!("POST /form HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 1000000\r\n\r\n");
    let mut stalled = site.connect();
    stalled.write(head.as_bytes()).unwrap();
    stalled.write(&random_bytes(300_000)).unwrap();
    site.get("/one").assert_status(200);
    drop(stalled);
    for _ in 0..5 {
        let mut broken = site.connect();
        broken.write(head.as_bytes()).unwrap();
        broken.write(&random_bytes(100_000)).unwrap();
    }
    site.get("/two").assert_status(200);
    assert_eq!(site.runs("/form"), 0);
    let mut connection = site.connect();
    connection
        .exchange(&with_host(Request::get("/three")))
        .unwrap()
        .assert_status(200);
}
