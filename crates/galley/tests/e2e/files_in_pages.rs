//! Files in memory that plain HTTP/1 connections send without copying them (`galley_sys::OwnPages`).

use std::fs;

use galley_testkit::client::{Connection, Request};
use galley_testkit::{Strace, wait_for};

use crate::http2::client::Client;
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, random_bytes, with_host};

fn wait_until_in_memory(site: &TestSite, target: &str) {
    wait_for(&format!("{target} in memory"), TIMEOUT, || {
        site.get(target).assert_status(200);
        site.why(target).contains("is sent, from memory\"")
    });
}

#[test]
fn files_in_memory_are_the_same_over_every_protocol() {
    // Around the limits of what is sent from pages.
    let files = [65_535, 65_536, 65_537, 300_000, 655_360, 655_361].map(|length| {
        let name = format!("{length}.jpg");
        (name, random_bytes(length))
    });
    let mut builder = SiteBuilder::files().server("h2c = true");
    for (name, content) in &files {
        builder = builder.file(name, content);
    }
    let site = builder.start();
    let mut connection = site.connect();
    for (name, content) in &files {
        let target = format!("/{name}");
        wait_until_in_memory(&site, &target);
        for _ in 0..3 {
            let whole = with_host(Request::get(&target));
            let same = connection.exchange(&whole).unwrap().expect_status(200);
            assert!(same.body == *content, "{name}");
            let head = with_host(Request::head(&target));
            let head = connection.exchange(&head).unwrap().expect_status(200);
            let length = content.len().to_string();
            assert_eq!(head.field("content-length"), Some(length.as_str()));
            let known = whole
                .clone()
                .field("If-None-Match", same.field("etag").unwrap());
            let known = connection.exchange(&known).unwrap();
            assert!(known.status == 304 && known.body.is_empty());
            let range = whole.field("Range", "bytes=1-65000");
            let range = connection.exchange(&range).unwrap().expect_status(206);
            assert!(range.body == content[1..=65_000], "{name}");
            let over_h2 = Client::open(site.addr()).get(&target);
            assert!(over_h2.expect_status(200).body == *content, "{name}");
            assert!(
                site.get(&target).expect_status(200).body == *content,
                "{name}"
            );
        }
    }
    // Hits that are sent together.
    let requests = files.each_ref().map(|(name, _)| {
        let request = with_host(Request::get(&format!("/{name}")));
        request.to_bytes("")
    });
    connection.write(&requests.concat()).unwrap();
    for (name, content) in &files {
        let response = connection.receive("GET").unwrap().expect_status(200);
        assert!(response.body == *content, "{name}");
    }
}

#[test]
fn a_slow_reader_gets_the_file_as_it_was() {
    let (old, new) = (random_bytes(600_000), random_bytes(600_000));
    let site = SiteBuilder::files().file("a.jpg", &old).start();
    let path = site.scratch.join("root/a.jpg");
    let replace = |content: &[u8]| {
        site.scratch.write("root/new.jpg", content).unwrap();
        fs::rename(site.scratch.join("root/new.jpg"), &path).unwrap();
    };
    let truncate = |content: &[u8]| {
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(content.len() as u64).unwrap();
    };
    for (before, after) in [(&old[..], &new[..]), (&new[..], &new[..70_000])] {
        wait_until_in_memory(&site, "/a.jpg");
        let readers: Vec<Connection> = (0..20).map(|_| site.start_request("/a.jpg")).collect();
        for reader in &readers {
            // The response has begun.
            assert_eq!(reader.stream().peek(&mut [0]).unwrap(), 1);
        }
        if after.len() < before.len() {
            truncate(after);
        } else {
            replace(after);
        }
        wait_for("the change to be noticed", TIMEOUT, || {
            site.get("/a.jpg").body == after
        });
        wait_until_in_memory(&site, "/a.jpg");
        for mut reader in readers {
            let response = reader.receive("GET").unwrap().expect_status(200);
            assert!(response.body == before, "{} bytes", response.body.len());
        }
    }
}

#[test]
fn without_a_pipe_a_file_is_copied() {
    let content = random_bytes(300_000);
    let site = SiteBuilder::files()
        .server("workers = 1")
        .file("a.jpg", &content)
        .start();
    wait_until_in_memory(&site, "/a.jpg");
    let mut connection = site.connect();
    let mut exchange = || {
        let request = with_host(Request::get("/a.jpg"));
        let response = connection.exchange(&request).unwrap().expect_status(200);
        assert!(response.body == content);
    };
    // A failure that passes closes the pipe that was open; then there are no descriptors for another one, and then a filter forbids the call.
    let faults = [
        "inject=vmsplice:error=ENOMEM",
        "inject=pipe2:error=EMFILE",
        "inject=vmsplice:error=EPERM",
        "signal=none",
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let folder = site.scratch.dir(&number.to_string()).unwrap();
        let arguments = ["-e", "trace=vmsplice,pipe2,recvfrom", "-e", fault];
        let strace = Strace::attach(site.galley.pid(), &folder, &arguments).unwrap();
        // The threads are attached one after the other, and a request may wait for a check of the file, which is then copied anyway.
        let is_last = number + 1 == faults.len();
        let wanted = if is_last { "recvfrom(" } else { "(INJECTED)" };
        wait_for(fault, TIMEOUT, || {
            exchange();
            fs::read_to_string(folder.join("trace")).is_ok_and(|trace| trace.contains(wanted))
        });
        exchange();
        let calls = strace.finish().unwrap();
        // After the last failure no response tries it again.
        assert!(
            !is_last || !calls.contains("splice(") && !calls.contains("pipe2("),
            "{calls}"
        );
    }
}
