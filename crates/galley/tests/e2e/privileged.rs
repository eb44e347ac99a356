//! PHP of several users under a Galley that has given up root: who runs as whom, what is started again, what is left at the end, and
//! what the process that keeps root does with orders that are none.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use galley::sys::packets;
use galley_privileged::{BYTES, How, PrivilegedOrder, Report};
use galley_testkit::client::{Request, Response};
use galley_testkit::{Galley, Scratch, runs_as_root, wait_for};
use rustix::fs::{MemfdFlags, SealFlags};

use crate::pool::GROWS;
use crate::support::{
    SiteBuilder, TIMEOUT, TestSite, binary, doctor_finding, json_number, output_text, page_value,
};
use crate::tls_support::{Authority, Tls, over_tls, tls_addr};

const WHO: &str = "<?php echo 'uid=', posix_geteuid(), \"\\ngroups=\", implode(',', posix_getgroups()), \"\\npid=\", getmypid(), \"\\nparent=\", posix_getppid(), \"\\n\";";

/// Number and first group of a user that every Debian has.
pub(crate) fn account(name: &str) -> (u32, u32) {
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let mut rows = accounts.lines().map(|row| row.split(':'));
    let mut row = rows.find(|row| row.clone().next() == Some(name)).unwrap();
    let uid = row.nth(2).unwrap().parse().unwrap();
    (uid, row.next().unwrap().parse().unwrap())
}

/// Galley as `www-data`, a site of its own user, and two sites of other users. `None` where nobody may become anybody.
pub(crate) fn plan(first: &str) -> Option<SiteBuilder> {
    if !runs_as_root() {
        eprintln!("only root can become somebody else");
        return None;
    }
    let second = "[[site]]\nhosts = [\"second.test\"]\nroot = \"{dir}/second\"\nphp = \"managed\"\nphp_workers = 1\nphp_user = \"news\"\n\
                  [[site]]\nhosts = [\"own.test\"]\nroot = \"{dir}/own\"\nphp = \"managed\"\nphp_workers = 1\n";
    let plan = SiteBuilder::upstream_line(first)
        .site("php_user = \"games\"")
        .server("user = \"www-data\"")
        .more(second);
    for (folder, user) in [
        ("root", "games"),
        ("second", "news"),
        ("own", "www-data"),
        ("", "www-data"),
        ("galley", "www-data"),
    ] {
        let path = plan.scratch.dir(folder).unwrap();
        let (uid, gid) = account(user);
        chown(&path, Some(uid), Some(gid)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        if !["", "galley"].contains(&folder) {
            fs::write(path.join("who.php"), WHO).unwrap();
        }
    }
    Some(plan)
}

/// Past the cache, always.
pub(crate) fn send(stage: &TestSite, host: &str) -> Response {
    stage.send(Request::form("/who.php", &[("a", "b")]).host(host))
}

pub(crate) fn of(stage: &TestSite, host: &str, what: &str) -> u32 {
    let text = send(stage, host).expect_status(200).text();
    page_value(&text, what).parse().unwrap()
}

/// Whose processes they are: name in the list, parent, number.
fn processes() -> Vec<(String, u32, u32)> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent = stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        Some((line.trim().to_owned(), parent, pid))
    })
    .collect()
}

pub(crate) fn children(parent: u32) -> Vec<(String, u32)> {
    let all = processes().into_iter();
    all.filter(|(line, of, _)| *of == parent && !line.is_empty())
        .map(|(line, _, pid)| (line, pid))
        .collect()
}

/// The process that keeps root.
pub(crate) fn keeper(stage: &TestSite) -> Option<u32> {
    let all = children(stage.galley.pid()).into_iter();
    all.filter(|(line, _)| line == "galley privileged")
        .map(|(_, pid)| pid)
        .next()
}

pub(crate) fn lives(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

pub(crate) fn kill(signal: &str, pid: u32) {
    let killed = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(killed.unwrap().success());
}

/// A line of `/proc/PID/status`.
fn status_line(pid: u32, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim().to_owned()
}

pub(crate) fn folders(stage: &TestSite) -> Vec<String> {
    let all = fs::read_dir(stage.scratch.join("galley"))
        .unwrap()
        .flatten();
    all.filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("php-"))
        .collect()
}

#[test]
fn each_site_has_its_user_and_galley_has_none_of_roots_rights() {
    let Some(plan) = plan("php = \"managed\"\nphp_workers = 1") else {
        return;
    };
    let mut stage = plan.start();
    let [games, news, www] = ["games", "news", "www-data"].map(account);
    for (host, (uid, gid)) in [
        ("example.test", games),
        ("second.test", news),
        ("own.test", www),
    ] {
        let text = send(&stage, host).expect_status(200).text();
        assert_eq!(page_value(&text, "uid"), uid.to_string());
        let groups: Vec<&str> = page_value(&text, "groups").split(',').collect();
        assert!(groups.contains(&gid.to_string().as_str()), "{text}");
        // No master is root's either.
        let master = page_value(&text, "parent").parse().unwrap();
        assert_eq!(
            status_line(master, "Uid:"),
            format!("{uid}\t{uid}\t{uid}\t{uid}")
        );
        assert_eq!(status_line(master, "CapPrm:"), "0000000000000000");
    }
    for task in fs::read_dir(format!("/proc/{}/task", stage.galley.pid())).unwrap() {
        let task = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
        assert!(status_line(task, "Uid:").starts_with(&format!("{}\t", www.0)));
        assert_eq!(status_line(task, "CapPrm:"), "0000000000000000");
    }
    let keeper = keeper(&stage).unwrap();
    assert!(status_line(keeper, "Uid:").starts_with("0\t"));
    // CHOWN, DAC_OVERRIDE, KILL, SETGID, SETUID.
    assert_eq!(status_line(keeper, "CapPrm:"), "00000000000000e3");
    assert_eq!(status_line(keeper, "Threads:"), "1");
    assert!(
        stage
            .status()
            .replace(' ', "")
            .contains("\"privileged\":\"running\"")
    );
    // Nobody gets to a site's socket but the site's user, and Galley by a descriptor.
    let folder = folders(&stage)
        .into_iter()
        .find(|name| name.contains("example.test"));
    let folder = stage.scratch.join("galley").join(folder.unwrap());
    let about = fs::metadata(&folder).unwrap();
    assert_eq!((about.uid(), about.mode() & 0o777), (games.0, 0o700));
    let masters: Vec<u32> = children(keeper).into_iter().map(|(_, pid)| pid).collect();
    assert_eq!(masters.len(), 2);
    assert!(stage.galley.stop().success());
    for pid in masters.into_iter().chain([keeper]) {
        assert!(!lives(pid), "{pid} outlived the server");
    }
    assert_eq!(folders(&stage), Vec::<String>::new());
}

#[test]
fn a_killed_master_of_another_user_comes_back_as_him() {
    let Some(plan) = plan("php = \"managed\"\nphp_workers = 1") else {
        return;
    };
    let stage = plan.start();
    // What service managers tell all processes of a service is not for this one.
    let keeper = keeper(&stage).unwrap();
    kill("-TERM", keeper);
    kill("-INT", keeper);
    for _ in 0..2 {
        let (master, worker) = (
            of(&stage, "example.test", "parent"),
            of(&stage, "example.test", "pid"),
        );
        kill("-KILL", master);
        wait_for("the end of its worker", TIMEOUT, || !lives(worker));
        wait_for("answers", TIMEOUT, || {
            send(&stage, "example.test").status == 200
        });
        assert_ne!(of(&stage, "example.test", "parent"), master);
        assert_eq!(of(&stage, "example.test", "uid"), account("games").0);
        assert_eq!(of(&stage, "second.test", "uid"), account("news").0);
    }
    let php = stage.status();
    assert!(json_number(php.split("\"php\":{").nth(1).unwrap(), "restarts") >= 2);
}

#[test]
fn the_end_of_the_privileged_process_is_reported_and_other_sites_are_served() {
    let Some(plan) = plan("php = \"managed\"\nphp_workers = 1") else {
        return;
    };
    let mut stage = plan.start();
    let masters = ["example.test", "second.test"].map(|host| of(&stage, host, "parent"));
    let keeper = keeper(&stage).unwrap();
    let finding = doctor_finding(&stage, "privileged");
    assert_eq!(finding["level"], "fine", "{finding}");
    let seen = finding["seen"].as_str().unwrap();
    assert!(seen.contains(&format!("process {keeper} ")), "{seen}");
    kill("-KILL", keeper);
    stage
        .galley
        .wait_for_log("the privileged process has ended", TIMEOUT);
    let finding = doctor_finding(&stage, "privileged");
    assert_eq!(finding["level"], "wrong", "{finding}");
    assert!(
        finding["remedy"]
            .as_str()
            .unwrap()
            .contains("restart galley"),
        "{finding}"
    );
    wait_for("its masters to end with it", TIMEOUT, || {
        !masters.iter().any(|pid| lives(*pid))
    });
    assert!(
        stage
            .status()
            .replace(' ', "")
            .contains("\"privileged\":\"gone\"")
    );
    let table = output_text(&stage.galley.cli(&["status"]).unwrap());
    assert!(table.contains("restart galley"), "{table}");
    // The packages restart at this exit code.
    let upgrade = stage.galley.cli(&["upgrade"]).unwrap();
    assert_eq!(upgrade.status.code(), Some(2), "{}", output_text(&upgrade));
    assert!(output_text(&upgrade).contains("only a restart"));
    let answer = send(&stage, "example.test");
    assert!(
        [502, 503].contains(&answer.status),
        "{}",
        answer.beginning()
    );
    assert_eq!(of(&stage, "own.test", "uid"), account("www-data").0);
    stage
        .galley
        .wait_for_log("the privileged process has ended", TIMEOUT);
    assert!(stage.galley.stop().success());
}

#[test]
fn nothing_of_other_users_outlives_a_galley_that_is_killed() {
    let Some(plan) = plan("php = \"managed\"\nphp_workers = 1") else {
        return;
    };
    let mut stage = plan.start();
    let keeper = keeper(&stage).unwrap();
    let mut all = vec![keeper];
    for host in ["example.test", "second.test", "own.test"] {
        all.extend([of(&stage, host, "parent"), of(&stage, host, "pid")]);
    }
    stage.galley.kill();
    wait_for("all of PHP to be gone", Duration::from_secs(30), || {
        !all.iter().any(|pid| lives(*pid))
    });
    wait_for("its folders to be gone", TIMEOUT, || {
        !folders(&stage)
            .iter()
            .any(|name| name.contains("test-") && !name.contains("own"))
    });
}

#[test]
fn a_worker_of_another_user_is_measured_and_replaced() {
    let Some(plan) = plan("php = \"managed\"\nphp_workers = 1\nphp_memory_limit = \"128MiB\"")
    else {
        return;
    };
    let stage = plan.file("grows.php", GROWS).start();
    let target = "/grows.php?patterns=1700";
    let text = stage.send(Request::form(target, &[("a", "b")]));
    let grown: u32 = page_value(&text.expect_status(200).text(), "pid")
        .parse()
        .unwrap();
    stage
        .galley
        .wait_for_log("it has exceeded the memory limit", TIMEOUT);
    wait_for("its end", TIMEOUT, || !lives(grown));
    wait_for("another", TIMEOUT, || {
        send(&stage, "example.test").status == 200
    });
    assert_eq!(of(&stage, "example.test", "uid"), account("games").0);
}

#[test]
fn other_programs_run_as_the_sites_user_too() {
    let line = "php = \"managed\"\nphp_workers = 2\nphp_command = [\"/usr/bin/php-cgi\"]";
    let Some(plan) = plan(line) else {
        return;
    };
    let mut stage = plan.start();
    let games = account("games").0;
    assert_eq!(of(&stage, "example.test", "uid"), games);
    let first = of(&stage, "example.test", "pid");
    kill("-KILL", first);
    wait_for("another process", TIMEOUT, || {
        let answer = send(&stage, "example.test");
        answer.status == 200 && page_value(&answer.text(), "pid") != first.to_string()
    });
    assert_eq!(of(&stage, "example.test", "uid"), games);
    let all: Vec<u32> = children(keeper(&stage).unwrap())
        .into_iter()
        .map(|(_, pid)| pid)
        .collect();
    assert!(stage.galley.stop().success());
    assert!(!all.into_iter().any(lives));
    assert_eq!(folders(&stage), Vec::<String>::new());
}

#[test]
fn what_cannot_run_is_refused_at_the_start_and_leaves_nothing() {
    for (user, closed, wanted) in [
        ("no-such-user", false, "there is no such user"),
        // Who may not enter the root of his site.
        ("games", true, "as the site's user"),
    ] {
        let Some(plan) = plan("php = \"managed\"\nphp_workers = 1") else {
            return;
        };
        let root = plan.scratch.join("root");
        if closed {
            chown(&root, Some(0), Some(0)).unwrap();
            fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let (scratch, _, text) = plan.prepare();
        let text = text.replace("\"games\"", &format!("\"{user}\""));
        let galley = scratch.join("galley");
        let refused = Galley::start_binary(binary(), &galley, &text).unwrap_err();
        assert!(refused.to_string().contains(wanted), "{refused}");
        wait_for("its folders to be gone", TIMEOUT, || {
            let all = fs::read_dir(&galley).unwrap().flatten();
            !all.map(|entry| entry.file_name())
                .any(|name| name.to_string_lossy().starts_with("php-"))
        });
    }
}

#[test]
fn where_nobody_else_is_needed_nobody_keeps_root() {
    if !runs_as_root() {
        return;
    }
    let plan =
        SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1\nphp_user = \"www-data\"")
            .file("who.php", WHO)
            .server("user = \"www-data\"");
    let (uid, gid) = account("www-data");
    for folder in ["", "galley"] {
        chown(plan.scratch.dir(folder).unwrap(), Some(uid), Some(gid)).unwrap();
    }
    let stage = plan.start();
    assert_eq!(of(&stage, "example.test", "uid"), uid);
    assert_eq!(keeper(&stage), None);
    assert!(
        stage
            .status()
            .replace(' ', "")
            .contains("\"privileged\":null")
    );
}

/// The process that keeps root, with a plan of one pool: `sleep`, twice at most, as `games`.
struct Alone {
    child: Child,
    socket: OwnedFd,
    scratch: Scratch,
}

impl Alone {
    fn start() -> Self {
        let scratch = Scratch::new().unwrap();
        let folder = scratch.dir("pool").unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        let (uid, gid) = account("games");
        let account = format!("{{\"uid\":{uid},\"gid\":{gid},\"groups\":[]}}");
        let plan = format!(
            "{{\"pools\":[{{\"program\":\"/bin/sleep\",\"arguments\":[\"600\"],\"kind\":{{\"Program\":{{\"socket\":\"{0}/s\",\"requests\":[1,2]}}}},\
             \"account\":{account},\"root\":\"/\",\"slots\":2,\"folder\":\"{0}\"}}],\"galley\":{account}}}",
            folder.display()
        );
        let (here, there) = packets::pair().unwrap();
        let child = Command::new(binary())
            .arg("privileged")
            .stdin(Stdio::from(there))
            .stdout(Stdio::from(sealed(&plan)))
            .spawn()
            .unwrap();
        let mut alone = Self {
            child,
            socket: here,
            scratch,
        };
        assert_eq!(alone.hear().0, Report::Ready);
        alone
    }

    fn send(&self, packet: &[u8]) {
        packets::send(&self.socket, packet, None).unwrap();
    }

    fn exchange(&mut self, packet: &[u8]) -> (Report, Option<OwnedFd>) {
        self.send(packet);
        self.hear()
    }

    fn hear(&mut self) -> (Report, Option<OwnedFd>) {
        hear(&self.socket)
    }

    fn children(&self) -> Vec<(String, u32)> {
        children(self.child.id())
    }
}

fn hear(socket: &OwnedFd) -> (Report, Option<OwnedFd>) {
    let mut packet = [0; BYTES + 1];
    let (length, carried) = packets::receive(socket, &mut packet).unwrap();
    (Report::read(&packet[..length]).unwrap(), carried)
}

fn sealed(text: &str) -> OwnedFd {
    let file = rustix::fs::memfd_create("plan", MemfdFlags::ALLOW_SEALING).unwrap();
    let mut file = File::from(file);
    file.write_all(text.as_bytes()).unwrap();
    let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, all).unwrap();
    file.into()
}

#[test]
fn orders_that_are_none_change_nothing() {
    if !runs_as_root() {
        return;
    }
    let mut alone = Alone::start();
    let start = |pool, place| PrivilegedOrder::Start { pool, place }.bytes();
    alone.send(&start(0, 1));
    let (Report::Started { process, .. }, Some(_said)) = alone.hear() else {
        panic!("it was not started");
    };
    wait_for("the program", TIMEOUT, || {
        alone.children() == [("/bin/sleep 600".to_owned(), process)]
    });
    assert!(status_line(process, "Uid:").starts_with(&format!("{}\t", account("games").0)));
    let own = std::process::id();
    let signal = |pool, process| {
        let how = How::Kill;
        PrivilegedOrder::Signal { pool, process, how }
            .bytes()
            .to_vec()
    };
    let replace = |worker| {
        PrivilegedOrder::Replace { pool: 0, worker }
            .bytes()
            .to_vec()
    };
    for odd in [
        b"x".to_vec(),
        vec![0; BYTES],
        vec![255; BYTES],
        [&start(0, 0)[..], b"x"].concat(),
        vec![1; 4096],
        signal(1, process),
        signal(0, own),
        signal(0, 1),
        replace(own),
        replace(1),
        replace(process),
        Report::Ready.bytes().to_vec(),
    ] {
        alone.send(&odd);
        assert_eq!(alone.hear().0, Report::Refused, "{odd:?}");
    }
    for (pool, place) in [(1, 0), (0, 2), (0, 1), (u32::MAX, u32::MAX)] {
        alone.send(&start(pool, place));
        let answer = alone.hear().0;
        assert!(matches!(answer, Report::Failed { .. }), "{answer:?}");
    }
    // What comes along is closed at once.
    let (one, other) = UnixStream::pair().unwrap();
    packets::send(&alone.socket, b"x", Some(std::os::fd::AsFd::as_fd(&one))).unwrap();
    assert_eq!(alone.hear().0, Report::Refused);
    drop(one);
    let mut other = other;
    assert_eq!(std::io::Read::read(&mut other, &mut [0]).unwrap(), 0);
    assert_eq!(alone.children(), [("/bin/sleep 600".to_owned(), process)]);
    alone.send(&signal(0, process));
    let ended = Report::Ended {
        pool: 0,
        process,
        status: 9,
    };
    assert_eq!(alone.hear().0, ended);
    alone.send(&start(0, 0));
    let (Report::Started { process, .. }, _) = alone.hear() else {
        panic!("it was not started again");
    };
    let Alone {
        mut child,
        socket,
        scratch,
    } = alone;
    drop(socket);
    assert!(child.wait().unwrap().success());
    assert!(!lives(process) && !scratch.join("pool").exists());
}

#[test]
fn another_galley_is_told_what_runs_and_goes_on_with_it() {
    if !runs_as_root() {
        return;
    }
    let mut alone = Alone::start();
    let start = |place| PrivilegedOrder::Start { pool: 0, place }.bytes();
    let (first, _output) = started(alone.exchange(&start(0)));
    let connected = Report::Connected { errno: 0 };
    let (report, another) = alone.exchange(&PrivilegedOrder::Connect.bytes());
    assert_eq!(report, connected);
    let another = another.unwrap();
    let running = Report::Started {
        pool: 0,
        place: 0,
        process: first,
    };
    assert_eq!(hear(&another).0, running);
    assert_eq!(hear(&another).0, Report::Ready);
    // Each hears of its own, and both of every end.
    let (second, _output) = started(alone.exchange(&start(1)));
    let how = How::Kill;
    let signal = PrivilegedOrder::Signal {
        pool: 0,
        process: first,
        how,
    };
    packets::send(&another, &signal.bytes(), None).unwrap();
    let ended = Report::Ended {
        pool: 0,
        process: first,
        status: 9,
    };
    assert_eq!((alone.hear().0, hear(&another).0), (ended, ended));
    // A few may have connections, and no more.
    let mut more = Vec::new();
    let refused = loop {
        let (report, socket) = alone.exchange(&PrivilegedOrder::Connect.bytes());
        match socket {
            Some(socket) => more.push(socket),
            None => break report,
        }
    };
    assert_ne!(refused, connected);
    assert!(more.len() < 8, "{}", more.len());
    // While its Galley is connected, a program is not ended.
    let busy = |report| {
        matches!(
            report,
            Report::Failed {
                pool: 0,
                place: 1,
                ..
            }
        )
    };
    packets::send(&another, &start(1), None).unwrap();
    assert!(busy(hear(&another).0));
    wait_for("the program", TIMEOUT, || lives(second));
    drop((alone.socket, more));
    // Nobody knows of this one any more.
    let limit = std::time::Instant::now() + TIMEOUT;
    let (third, _output) = loop {
        assert!(std::time::Instant::now() < limit);
        packets::send(&another, &start(1), None).unwrap();
        match hear(&another) {
            (Report::Ended { process, .. }, _) => assert_eq!(process, second),
            (report @ Report::Started { .. }, output) => break started((report, output)),
            (report, _) => assert!(busy(report), "{report:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    wait_for("the program", TIMEOUT, || lives(third));
    assert!(!lives(second));
    drop(another);
    assert!(alone.child.wait().unwrap().success());
    assert!(!lives(third) && !alone.scratch.join("pool").exists());
}

#[test]
fn a_galley_that_reads_nothing_is_disconnected_and_delays_no_other() {
    if !runs_as_root() {
        return;
    }
    let mut alone = Alone::start();
    let (_, another) = alone.exchange(&PrivilegedOrder::Connect.bytes());
    let another = another.unwrap();
    assert_eq!(hear(&another).0, Report::Ready);
    // Each is refused, and nobody reads that.
    let refused = (0..100_000).find(|_| packets::send(&alone.socket, b"x", None).is_err());
    assert!(refused.is_some());
    let start = PrivilegedOrder::Start { pool: 0, place: 0 }.bytes();
    packets::send(&another, &start, None).unwrap();
    let (process, _output) = started(hear(&another));
    drop(another);
    assert!(alone.child.wait().unwrap().success());
    assert!(!lives(process));
}

fn started((report, output): (Report, Option<OwnedFd>)) -> (u32, Option<OwnedFd>) {
    match report {
        Report::Started { process, .. } => (process, output),
        other => panic!("it was not started: {other:?}"),
    }
}

/// Root was given up since: keys that it alone reads stay in use, and its process starts nothing that it was not begun with.
#[test]
fn a_reload_keeps_what_only_root_could_have_made_and_names_it() {
    let Some(plan) = plan("php = \"managed\"\nphp_workers = 1") else {
        return;
    };
    let authority = Authority::new();
    let stage = over_tls(plan, &authority).start();
    let dir = stage.scratch.path().display().to_string();
    let shown = || {
        let tls = Tls::connect(&authority.client(), "example.test", tls_addr(&stage));
        tls.unwrap().certificate()
    };
    let certificate = shown();
    let parents =
        ["example.test", "second.test", "own.test"].map(|host| of(&stage, host, "parent"));
    let config = fs::read_to_string(stage.galley.config()).unwrap();
    let reload = |text: &str| {
        fs::write(stage.galley.config(), text).unwrap();
        stage.galley.cli(&["reload"]).unwrap()
    };
    let output = reload(&config);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let named = "these changes need a restart: the certificate files of site `example.test`";
    assert!(
        output_text(&output).contains(named),
        "{}",
        output_text(&output)
    );
    assert_eq!(shown(), certificate);
    let output = reload(&config.replace(
        "php_user = \"news\"",
        "php_user = \"news\"\nphp_timeout = \"11m\"",
    ));
    assert!(
        output_text(&output).contains("PHP settings of site `second.test`"),
        "{}",
        output_text(&output)
    );
    let output = reload(&config);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let after = ["example.test", "second.test", "own.test"].map(|host| of(&stage, host, "parent"));
    assert_eq!(after, parents, "the same processes");
    let more = format!(
        "{config}\n[[site]]\nhosts = [\"third.test\"]\nroot = \"{dir}/second\"\nphp = \"managed\"\nphp_user = \"news\"\n"
    );
    let output = reload(&more);
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    assert!(
        output_text(&output).contains("only a restart"),
        "{}",
        output_text(&output)
    );
    // A key that Galley has never read.
    authority.issue(stage.scratch.path(), "other", &["example.test"]);
    let output = reload(&config.replace("/site.", "/other."));
    assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
    assert!(
        output_text(&output).contains("other.key"),
        "{}",
        output_text(&output)
    );
    assert_eq!(shown(), certificate);
}
