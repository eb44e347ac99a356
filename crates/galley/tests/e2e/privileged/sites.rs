//! PHP of several users under a Galley that has dropped root: the user of each process, restarts, and the state after shutdown.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::time::Duration;

use galley_testkit::client::Request;
use galley_testkit::{Galley, runs_as_root, wait_for};

use super::setup::{
    USER_PAGE, children, php_folders, php_value, privileged_process, request_user_page,
    site_builder,
};
use crate::pool::GROWS;
use crate::support::{
    SiteBuilder, TIMEOUT, account, binary, doctor_finding, is_running, json_number, kill,
    output_text, page_value, status_field,
};
use crate::tls_support::{Authority, Tls, over_tls, tls_addr};

#[test]
fn each_site_has_its_user_and_galley_has_no_root_capabilities() {
    let Some(builder) = site_builder("php = \"managed\"\nphp_workers = 1") else {
        return;
    };
    let mut site = builder.start();
    let [games, news, www] = ["games", "news", "www-data"].map(account);
    for (host, (uid, gid)) in [
        ("example.test", games),
        ("second.test", news),
        ("own.test", www),
    ] {
        let text = request_user_page(&site, host).expect_status(200).text();
        assert_eq!(page_value(&text, "uid"), uid.to_string());
        let groups: Vec<&str> = page_value(&text, "groups").split(',').collect();
        assert!(groups.contains(&gid.to_string().as_str()), "{text}");
        // The masters do not run as root either.
        let master = page_value(&text, "parent").parse().unwrap();
        assert_eq!(
            status_field(master, "Uid:"),
            format!("{uid}\t{uid}\t{uid}\t{uid}")
        );
        assert_eq!(status_field(master, "CapPrm:"), "0000000000000000");
    }
    for task in fs::read_dir(format!("/proc/{}/task", site.galley.pid())).unwrap() {
        let task = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
        assert!(status_field(task, "Uid:").starts_with(&format!("{}\t", www.0)));
        assert_eq!(status_field(task, "CapPrm:"), "0000000000000000");
    }
    let privileged_process = privileged_process(&site).unwrap();
    assert!(status_field(privileged_process, "Uid:").starts_with("0\t"));
    // CHOWN, DAC_OVERRIDE, KILL, SETGID, SETUID.
    assert_eq!(
        status_field(privileged_process, "CapPrm:"),
        "00000000000000e3"
    );
    assert_eq!(status_field(privileged_process, "Threads:"), "1");
    assert!(
        site.status()
            .replace(' ', "")
            .contains("\"privileged\":\"running\"")
    );
    // Only the user of the site can open the socket. Galley has a descriptor.
    let folder = php_folders(&site)
        .into_iter()
        .find(|name| name.contains("example.test"));
    let folder = site.scratch.join("galley").join(folder.unwrap());
    let about = fs::metadata(&folder).unwrap();
    assert_eq!((about.uid(), about.mode() & 0o777), (games.0, 0o700));
    let masters: Vec<u32> = children(privileged_process)
        .into_iter()
        .map(|(pid, _)| pid)
        .collect();
    assert_eq!(masters.len(), 2);
    assert!(site.galley.stop().success());
    for pid in masters.into_iter().chain([privileged_process]) {
        assert!(!is_running(pid), "{pid} outlived the server");
    }
    assert_eq!(php_folders(&site), Vec::<String>::new());
}

#[test]
fn a_killed_master_is_restarted_with_the_same_user() {
    let Some(builder) = site_builder("php = \"managed\"\nphp_workers = 1") else {
        return;
    };
    let site = builder.start();
    // The privileged process ignores these signals, which service managers send to all processes of a service.
    let privileged_process = privileged_process(&site).unwrap();
    kill("-TERM", privileged_process);
    kill("-INT", privileged_process);
    for _ in 0..2 {
        let (master, worker) = (
            php_value(&site, "example.test", "parent"),
            php_value(&site, "example.test", "pid"),
        );
        kill("-KILL", master);
        wait_for("the end of its worker", TIMEOUT, || !is_running(worker));
        wait_for("a response", TIMEOUT, || {
            request_user_page(&site, "example.test").status == 200
        });
        assert_ne!(php_value(&site, "example.test", "parent"), master);
        assert_eq!(php_value(&site, "example.test", "uid"), account("games").0);
        assert_eq!(php_value(&site, "second.test", "uid"), account("news").0);
    }
    let php = site.status();
    assert!(json_number(php.split("\"php\":{").nth(1).unwrap(), "restarts") >= 2);
}

#[test]
fn the_end_of_the_privileged_process_is_reported_and_other_sites_are_served() {
    let Some(builder) = site_builder("php = \"managed\"\nphp_workers = 1") else {
        return;
    };
    let mut site = builder.start();
    let masters = ["example.test", "second.test"].map(|host| php_value(&site, host, "parent"));
    let privileged_process = privileged_process(&site).unwrap();
    let finding = doctor_finding(&site, "privileged");
    assert_eq!(finding["level"], "fine", "{finding}");
    let seen = finding["seen"].as_str().unwrap();
    assert!(
        seen.contains(&format!("process {privileged_process} ")),
        "{seen}"
    );
    kill("-KILL", privileged_process);
    site.galley
        .wait_for_log("the privileged process has ended", TIMEOUT);
    let finding = doctor_finding(&site, "privileged");
    assert_eq!(finding["level"], "wrong", "{finding}");
    assert!(
        finding["remedy"]
            .as_str()
            .unwrap()
            .contains("restart galley"),
        "{finding}"
    );
    wait_for("the masters to end", TIMEOUT, || {
        !masters.iter().any(|pid| is_running(*pid))
    });
    assert!(
        site.status()
            .replace(' ', "")
            .contains("\"privileged\":\"gone\"")
    );
    let table = output_text(&site.galley.cli(&["status"]).unwrap());
    assert!(table.contains("Restart galley"), "{table}");
    // The packages restart at this exit code.
    let upgrade = site.galley.cli(&["upgrade"]).unwrap();
    assert_eq!(upgrade.status.code(), Some(2), "{}", output_text(&upgrade));
    assert!(output_text(&upgrade).contains("only a restart"));
    let response = request_user_page(&site, "example.test");
    assert!(
        [502, 503].contains(&response.status),
        "{}",
        response.excerpt()
    );
    assert_eq!(php_value(&site, "own.test", "uid"), account("www-data").0);
    site.galley
        .wait_for_log("the privileged process has ended", TIMEOUT);
    assert!(site.galley.stop().success());
}

#[test]
fn processes_of_other_users_end_when_galley_is_killed() {
    let Some(builder) = site_builder("php = \"managed\"\nphp_workers = 1") else {
        return;
    };
    let mut site = builder.start();
    let privileged_process = privileged_process(&site).unwrap();
    let mut all = vec![privileged_process];
    for host in ["example.test", "second.test", "own.test"] {
        all.extend([
            php_value(&site, host, "parent"),
            php_value(&site, host, "pid"),
        ]);
    }
    site.galley.kill();
    wait_for("all PHP processes to end", Duration::from_secs(30), || {
        !all.iter().any(|pid| is_running(*pid))
    });
    wait_for("the folders of PHP to be removed", TIMEOUT, || {
        !php_folders(&site)
            .iter()
            .any(|name| name.contains("test-") && !name.contains("own"))
    });
}

#[test]
fn a_worker_over_its_memory_limit_is_replaced_with_the_same_user() {
    let Some(builder) =
        site_builder("php = \"managed\"\nphp_workers = 1\nphp_memory_limit = \"128MiB\"")
    else {
        return;
    };
    let site = builder.file("grows.php", GROWS).start();
    let target = "/grows.php?patterns=1700";
    let text = site.send(Request::form(target, &[("a", "b")]));
    let grown: u32 = page_value(&text.expect_status(200).text(), "pid")
        .parse()
        .unwrap();
    site.galley
        .wait_for_log("it has exceeded the memory limit", TIMEOUT);
    wait_for("the worker to end", TIMEOUT, || !is_running(grown));
    wait_for("another worker", TIMEOUT, || {
        request_user_page(&site, "example.test").status == 200
    });
    assert_eq!(php_value(&site, "example.test", "uid"), account("games").0);
}

#[test]
fn other_fastcgi_programs_run_as_the_user_of_the_site() {
    let line = "php = \"managed\"\nphp_workers = 2\nphp_command = [\"/usr/bin/php-cgi\"]";
    let Some(builder) = site_builder(line) else {
        return;
    };
    let mut site = builder.start();
    let games = account("games").0;
    assert_eq!(php_value(&site, "example.test", "uid"), games);
    let first = php_value(&site, "example.test", "pid");
    kill("-KILL", first);
    wait_for("another process", TIMEOUT, || {
        let response = request_user_page(&site, "example.test");
        response.status == 200 && page_value(&response.text(), "pid") != first.to_string()
    });
    assert_eq!(php_value(&site, "example.test", "uid"), games);
    let all: Vec<u32> = children(privileged_process(&site).unwrap())
        .into_iter()
        .map(|(pid, _)| pid)
        .collect();
    assert!(site.galley.stop().success());
    assert!(!all.into_iter().any(is_running));
    assert_eq!(php_folders(&site), Vec::<String>::new());
}

#[test]
fn an_unusable_php_user_is_rejected_at_the_start() {
    for (user, closed, expected) in [
        ("no-such-user", false, "there is no such user"),
        // This user has no access to the document root.
        ("games", true, "as the site's user"),
    ] {
        let Some(builder) = site_builder("php = \"managed\"\nphp_workers = 1") else {
            return;
        };
        let root = builder.scratch.join("root");
        if closed {
            chown(&root, Some(0), Some(0)).unwrap();
            fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let (scratch, _, text) = builder.prepare();
        let text = text.replace("\"games\"", &format!("\"{user}\""));
        let galley = scratch.join("galley");
        let error = Galley::start_binary(binary(), &galley, &text).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        wait_for("the folders of PHP to be removed", TIMEOUT, || {
            let all = fs::read_dir(&galley).unwrap().flatten();
            !all.map(|entry| entry.file_name())
                .any(|name| name.to_string_lossy().starts_with("php-"))
        });
    }
}

#[test]
fn no_privileged_process_runs_if_php_has_the_user_of_galley() {
    if !runs_as_root() {
        return;
    }
    let builder =
        SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 1\nphp_user = \"www-data\"")
            .file("user.php", USER_PAGE)
            .server("user = \"www-data\"");
    let (uid, gid) = account("www-data");
    for folder in ["", "galley"] {
        chown(builder.scratch.dir(folder).unwrap(), Some(uid), Some(gid)).unwrap();
    }
    let site = builder.start();
    assert_eq!(php_value(&site, "example.test", "uid"), uid);
    assert_eq!(privileged_process(&site), None);
    assert!(
        site.status()
            .replace(' ', "")
            .contains("\"privileged\":null")
    );
}

/// Galley has dropped root: it keeps keys that only root can read, and the privileged process starts only the programs that it knew
/// at its start.
#[test]
fn a_reload_reports_changes_that_need_root_and_keeps_the_old_state() {
    let Some(builder) = site_builder("php = \"managed\"\nphp_workers = 1") else {
        return;
    };
    let authority = Authority::new();
    let site = over_tls(builder, &authority).start();
    let dir = site.scratch.path().display().to_string();
    let sent_certificate = || {
        let tls = Tls::connect(&authority.client(), "example.test", tls_addr(&site));
        tls.unwrap().certificate()
    };
    let certificate = sent_certificate();
    let parents =
        ["example.test", "second.test", "own.test"].map(|host| php_value(&site, host, "parent"));
    let config = fs::read_to_string(site.galley.config()).unwrap();
    let reload = |text: &str| {
        fs::write(site.galley.config(), text).unwrap();
        site.galley.cli(&["reload"]).unwrap()
    };
    let output = reload(&config);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let message = "these changes need a restart: the certificate files of site `example.test`";
    assert!(
        output_text(&output).contains(message),
        "{}",
        output_text(&output)
    );
    assert_eq!(sent_certificate(), certificate);
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
    let after =
        ["example.test", "second.test", "own.test"].map(|host| php_value(&site, host, "parent"));
    assert_eq!(after, parents, "PHP was restarted");
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
    // A key that Galley has never read before.
    authority.issue(site.scratch.path(), "other", &["example.test"]);
    let output = reload(&config.replace("/site.", "/other."));
    assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
    assert!(
        output_text(&output).contains("other.key"),
        "{}",
        output_text(&output)
    );
    assert_eq!(sent_certificate(), certificate);
}
