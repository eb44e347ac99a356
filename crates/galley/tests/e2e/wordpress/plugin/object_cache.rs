//! The object cache with a real WordPress: what a completed write has changed is never old for those who begin after it, whatever happens
//! to Galley meanwhile, and WordPress works in every case.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use galley_testkit::client::Request;
use galley_testkit::{Galley, Scratch, Signal, wait_for};
use rustix::process::kill_process;
use serde_json::Value;

use crate::serving::pid;

use super::super::stack::{StackOptions, TIMEOUT, Upstream, UpstreamKind, WordPressStack};
use super::{PLUGIN, TOKEN, copy_directory};

/// A stack with the drop-in, and a second Galley without an object cache, through which PHP can be reached while the first one is away.
pub(super) struct ObjectStack {
    pub(super) stack: WordPressStack,
    pub(super) other: Galley,
    pub(super) posts: [u32; 2],
    _token: Scratch,
}

pub(super) fn start() -> ObjectStack {
    start_with("")
}

fn start_with(option: &str) -> ObjectStack {
    let token = Scratch::new().unwrap();
    let file = token.write("site.token", TOKEN).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let lines = format!(
        "cron = \"off\"\naudit = false\n{option}\ntoken_file = \"{}\"",
        file.display()
    );
    let stack = WordPressStack::start(UpstreamKind::Fpm, &StackOptions::new([(PLUGIN, lines)]));
    let root = &stack.wordpress.root;
    let content = root.join("wp-content");
    copy_directory(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wordpress-plugin/galley"),
        &content.join("plugins/galley"),
    );
    let address = stack.galley.admin().unwrap();
    let connection =
        format!("<?php return array( 'address' => '{address}', 'token' => '{TOKEN}' );");
    fs::write(content.join("galley-connection.php"), connection).unwrap();
    fs::write(
        root.join("object-probe.php"),
        include_str!("object-cache-probe.php"),
    )
    .unwrap();
    stack.php(
        "require_once ABSPATH . 'wp-admin/includes/plugin.php'; $failed = activate_plugin('galley/galley.php'); \
         if (is_wp_error($failed)) { throw new \\Exception($failed->get_error_message()); }",
    );
    let installed = content.join("object-cache.php");
    fs::copy(
        content.join("plugins/galley/object-cache/drop-in.php"),
        &installed,
    )
    .unwrap();
    // Until then no request reads what another has stored: PHP knows the times of files to the second.
    wait_for("the second of the installation to end", TIMEOUT, || {
        let changed = fs::metadata(&installed).unwrap().modified().unwrap();
        changed
            .elapsed()
            .is_ok_and(|age| age > Duration::from_secs(3))
    });
    let posts = stack.publish(["first-probe", "second-probe"]);
    let Upstream::Fpm(fpm) = &stack.upstream else {
        panic!("not PHP-FPM");
    };
    let other = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\nlimit_exempt = [\"127.0.0.1\"]\n[admin]\nlisten = \"off\"\n\
         [[site]]\nhosts = [\"{PLUGIN}\"]\nroot = \"{}\"\nphp = \"{}\"\ncron = \"off\"\naudit = false\n",
        root.display(),
        fpm.address()
    );
    let other = Galley::start(&stack.scratch.join("other"), &other).unwrap();
    ObjectStack {
        stack,
        other,
        posts,
        _token: token,
    }
}

/// Sends a request to the probe through PHP-FPM.
#[track_caller]
pub(super) fn probe(address: SocketAddr, query: &str) -> Value {
    let request = Request::get(&format!("/object-probe.php?{query}")).host(PLUGIN);
    let response = request.send(address).unwrap();
    assert_eq!(response.status, 200, "{query}: {}", response.excerpt());
    serde_json::from_str(&response.text())
        .unwrap_or_else(|error| panic!("{query}: {error}: {}", response.excerpt()))
}

pub(super) fn connected(stack: &ObjectStack) -> Value {
    let query = format!("who=a&post={}", stack.posts[0]);
    let mut last = Value::Null;
    wait_for("PHP uses the object cache", TIMEOUT, || {
        last = probe(stack.other.addr(), &query);
        last["connected"] == true
    });
    last
}

#[test]
fn a_request_gets_what_it_reads_with_its_first_message() {
    let stack = start();
    let query = format!("who=a&post={}", stack.posts[0]);
    let content = stack.stack.wordpress.root.join("wp-content");
    let [file, away] = ["object-cache.php", "object-cache.away"].map(|name| content.join(name));
    fs::rename(&file, &away).unwrap();
    let mut without = Value::Null;
    wait_for("PHP does without the drop-in", TIMEOUT, || {
        without = probe(stack.other.addr(), &query);
        without["connected"] == false
    });
    fs::rename(&away, &file).unwrap();
    // A busy machine may let PHP wait too long, so that it does without for a while.
    wait_for(
        "a request with few round trips and queries",
        TIMEOUT,
        || {
            let seen = probe(stack.other.addr(), &query);
            let count = |name: &str| seen[name].as_u64().unwrap();
            seen["connected"] == true
                && count("trips") <= 3
                && count("queries") * 2 < without["queries"].as_u64().unwrap()
        },
    );
    // The command line shares the store, and sites without the token do not.
    probe(stack.other.addr(), &format!("do=write&number=7&{query}"));
    let seen = stack.stack.php("echo get_option('probe_auto_a');");
    assert_eq!(seen.trim(), "7");
    // What a request does not ask the database for is what others have measured.
    let without = without["queries"].as_u64().unwrap();
    wait_for("the figure of the saved queries", TIMEOUT, || {
        let before = saved_queries(&stack);
        let seen = probe(stack.other.addr(), &query);
        // The end of a request reaches Galley after its response.
        wait_for("the end of the request", TIMEOUT, || {
            seen["connected"] == false || saved_queries(&stack).0 > before.0
        });
        let saved = saved_queries(&stack).1 - before.1;
        let difference = without - seen["queries"].as_u64().unwrap();
        // The transient was never read from the database, so nobody knows what that takes.
        seen["connected"] == true && (difference - 2..=difference).contains(&saved)
    });
}

/// The queries of requests that have used the object cache and have ended, of which each has some, and those that they saved.
fn saved_queries(stack: &ObjectStack) -> (u64, u64) {
    (figure(stack, "queries"), figure(stack, "saved_queries"))
}

/// A figure of the object cache.
fn figure(stack: &ObjectStack, name: &str) -> u64 {
    let output = stack.stack.galley.cli(&["status", "--json"]).unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    status["sites"][0]["object_cache"][name].as_u64().unwrap()
}

#[test]
fn without_its_files_or_its_server_wordpress_works_and_nothing_old_returns() {
    let mut stack = start();
    connected(&stack);
    let query = format!("who=a&post={}", stack.posts[0]);
    let write = |stack: &ObjectStack, number: u64| {
        probe(
            stack.other.addr(),
            &format!("do=write&number={number}&{query}"),
        );
    };
    let read = |stack: &ObjectStack| probe(stack.other.addr(), &query);
    write(&stack, 1);
    read(&stack);
    // The drop-in is moved away for a while, more than once in a second.
    let content = stack.stack.wordpress.root.join("wp-content");
    let [file, away] = ["object-cache.php", "object-cache.away"].map(|name| content.join(name));
    for number in [2, 21, 22, 23] {
        fs::rename(&file, &away).unwrap();
        wait_for("PHP does without the drop-in", TIMEOUT, || {
            read(&stack)["connected"] == false
        });
        write(&stack, number);
        fs::rename(&away, &file).unwrap();
        assert_eq!(connected(&stack)["late"], number);
    }
    // A process that cannot reach the socket.
    let socket = stack.stack.scratch.join("objects.sock");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
    write(&stack, 3);
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    let seen = connected(&stack);
    assert_eq!(
        (&seen["late"], &seen["title"]),
        (&Value::from(3), &Value::from(3))
    );
    // A request that dies between its statement and the announcement.
    let dying = Request::get(&format!("/object-probe.php?do=die&number=30&{query}")).host(PLUGIN);
    assert_eq!(dying.send(stack.other.addr()).unwrap().status, 500);
    assert_eq!(connected(&stack)["title"], 30);
    // A plugin of another version, whose messages Galley refuses.
    let store = content.join("plugins/galley/object-cache/class-object-store.php");
    let code = fs::read_to_string(&store).unwrap();
    let older = code.replace("pack( 'CC', 5,", "pack( 'CC', 4,");
    assert_ne!(older, code);
    fs::write(&store, older).unwrap();
    wait_for("PHP does without the store", TIMEOUT, || {
        read(&stack)["connected"] == false
    });
    write(&stack, 31);
    assert_eq!(read(&stack)["title"], 31);
    fs::write(&store, code).unwrap();
    assert_eq!(connected(&stack)["title"], 31);
    // Galley ends.
    stack.stack.galley.kill();
    write(&stack, 4);
    let seen = read(&stack);
    assert_eq!(
        (&seen["transient"], &seen["connected"]),
        (&Value::from("4"), &Value::from(false))
    );
    // The plugin's folder is gone, and the drop-in is left over.
    fs::rename(content.join("plugins/galley"), content.join("plugins/away")).unwrap();
    write(&stack, 5);
    assert_eq!(read(&stack)["late"], 5);
}

#[test]
fn after_a_commit_nobody_reads_the_rows_from_before_it() {
    let stack = start();
    connected(&stack);
    let root = &stack.stack.wordpress.root;
    fs::set_permissions(root, fs::Permissions::from_mode(0o777)).unwrap();
    let (address, query) = (
        stack.other.addr(),
        format!("who=a&term=1&post={}", stack.posts[0]),
    );
    let read = || {
        let seen = probe(address, &query);
        ["title", "term"].map(|name| seen[name].as_u64().unwrap())
    };
    thread::scope(|scope| {
        let writer = scope.spawn(|| probe(address, &format!("do=commit&number=7&{query}")));
        let reach = |step: &str| {
            let file = root.join(format!("probe-{step}"));
            wait_for("a step of the transaction", TIMEOUT, || file.exists());
        };
        let leave = |step: &str| fs::write(root.join(format!("probe-{step}-seen")), "").unwrap();
        reach("open");
        // These store the rows from before the transaction.
        let before = [read(), read()];
        leave("open");
        reach("committed");
        let after = read();
        leave("committed");
        assert_eq!((before, after), ([[0; 2]; 2], [7; 2]));
        assert_eq!(writer.join().unwrap()["title"], 7);
    });
    // A changed term deletes the order of the terms of posts, and nothing else.
    assert_eq!(figure(&stack, "flushes"), 0);
}

/// The last completed write of each writer, by its index.
type Completed = [AtomicU64; 2];

/// Fails if a value is older than the last write that was complete before its request began.
#[track_caller]
pub(super) fn assert_not_older(seen: &Value, least: u64) {
    for name in ["auto", "late", "title", "meta"] {
        assert!(
            seen[name].as_u64() >= Some(least),
            "{name} is older than {least}: {seen}"
        );
    }
    // Transients may be lost.
    let transient = &seen["transient"];
    let number = transient
        .as_u64()
        .or_else(|| transient.as_str()?.parse().ok());
    assert!(
        number.is_none_or(|number| number >= least),
        "the transient is older than {least}: {seen}"
    );
}

#[test]
fn nothing_old_is_read_while_galley_is_killed_paused_and_reloaded() {
    // Of which the values of `do=fill` leave nothing.
    let mut stack = start_with("object_cache = \"1MiB\"");
    be_away_for_a_second(&stack);
    connected(&stack);
    let rounds = std::env::var("GALLEY_OBJECT_ROUNDS").map_or(10, |text| text.parse().unwrap());
    let completed: &Completed = &[AtomicU64::new(0), AtomicU64::new(0)];
    let ended = &AtomicBool::new(false);
    let (address, posts) = (stack.other.addr(), stack.posts);
    let wordpress = &stack.stack.wordpress;
    let reads = &AtomicU64::new(0);
    let hits = &AtomicU64::new(0);
    let folder = &stack.stack.scratch.join("galley");
    let galley = &mut stack.stack.galley;
    thread::scope(|scope| {
        let guard = EndsAll(ended);
        scope.spawn(move || {
            let _guard = EndsAll(ended);
            for number in 1.. {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                let query = format!("do=write&who=a&number={number}&post={}", posts[0]);
                assert_not_older(&probe(address, &query), number);
                completed[0].store(number, Ordering::SeqCst);
            }
        });
        scope.spawn(move || {
            let _guard = EndsAll(ended);
            for number in 1.. {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                let least = completed[0].load(Ordering::SeqCst);
                let code = command_line(number, posts[1]);
                let seen = wordpress.php(&code).unwrap();
                assert!(
                    seen.trim().parse::<u64>().unwrap() >= least,
                    "the command line read {seen}, older than {least}"
                );
                completed[1].store(number, Ordering::SeqCst);
            }
        });
        for _ in 0..2 {
            scope.spawn(move || {
                let _guard = EndsAll(ended);
                while !ended.load(Ordering::Relaxed) {
                    let with_store = read_both(address, posts, completed);
                    reads.fetch_add(2, Ordering::Relaxed);
                    hits.fetch_add(with_store, Ordering::Relaxed);
                }
            });
        }
        for round in 0..rounds {
            if ended.load(Ordering::Relaxed) {
                break;
            }
            disturb(galley, folder, round, &|| {
                probe(address, "do=fill");
            });
        }
        drop(guard);
    });
    let [a, b] = completed;
    eprintln!(
        "{rounds} rounds: {} writes over FPM, {} on the command line, {} reads, {} of them with the store",
        a.load(Ordering::Relaxed),
        b.load(Ordering::Relaxed),
        reads.load(Ordering::Relaxed),
        hits.load(Ordering::Relaxed)
    );
    assert!(
        hits.load(Ordering::Relaxed) > 0,
        "the object cache was never used"
    );
    for (at, who) in ["a", "b"].into_iter().enumerate() {
        let seen = probe(address, &format!("who={who}&post={}", posts[at]));
        assert_not_older(&seen, completed[at].load(Ordering::Relaxed));
    }
}

/// Reads what both writers write, and returns how many of these requests used the store.
fn read_both(address: SocketAddr, posts: [u32; 2], completed: &Completed) -> u64 {
    let mut with_store = 0;
    for (at, who) in ["a", "b"].into_iter().enumerate() {
        let least = completed[at].load(Ordering::SeqCst);
        let seen = probe(address, &format!("who={who}&post={}", posts[at]));
        assert_not_older(&seen, least);
        with_store += u64::from(seen["connected"] == true);
    }
    with_store
}

/// What the second writer runs on the command line. Prints what the first one has written.
fn command_line(number: u64, post: u32) -> String {
    format!(
        "$seen = (int) get_option('probe_auto_a'); update_option('probe_auto_b', {number}, true); \
                     update_option('probe_late_b', 'text {number}', false); set_transient('probe_b', {number}, 600); \
                     wp_update_post(['ID' => {post}, 'post_title' => 'Title {number}']); update_post_meta({post}, 'probe', {number}); echo $seen;"
    )
}

/// Ends all threads when one of them fails.
pub(super) struct EndsAll<'a>(pub(super) &'a AtomicBool);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Shortens the time for which PHP leaves a store alone that did not answer: what a round does matters while the store is in use.
fn be_away_for_a_second(stack: &ObjectStack) {
    let content = stack.stack.wordpress.root.join("wp-content");
    let file = content.join("plugins/galley/object-cache/class-fence.php");
    let text = fs::read_to_string(&file).unwrap();
    let shorter = text.replace("const AWAY_FOR = 5;", "const AWAY_FOR = 1;");
    assert_ne!(text, shorter);
    fs::write(&file, shorter).unwrap();
}

/// Waits while the threads work, and then disturbs Galley. `fill` fills its memory.
fn disturb(galley: &mut Galley, folder: &Path, round: usize, fill: &dyn Fn()) {
    let pause = |ms: u64| {
        let until = Instant::now() + Duration::from_millis(ms);
        while Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
    };
    let restart = |galley: &mut Galley| {
        let config = fs::read_to_string(galley.config()).unwrap();
        *galley = Galley::start(folder, &config).unwrap();
    };
    pause(1600);
    match round % 8 {
        0 => {
            galley.signal(Signal::STOP);
            pause(400);
            galley.signal(Signal::CONT);
        }
        1 => galley.signal(Signal::HUP),
        2 => {
            galley.kill();
            pause(300);
            restart(galley);
        }
        3 | 7 => fill(),
        4 => {
            let output = galley.cli(&["upgrade", "--json"]).unwrap();
            let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            pause(1000);
            galley.kill();
            if let Some(number) = report["pid"].as_u64() {
                // Not a child of the test, so it needs a signal of its own.
                let _ = kill_process(pid(u32::try_from(number).unwrap()), Signal::KILL);
            }
            restart(galley);
        }
        5 => {
            galley.signal(Signal::STOP);
            pause(40);
            galley.signal(Signal::CONT);
        }
        _ => {
            galley.kill();
            restart(galley);
        }
    }
}
