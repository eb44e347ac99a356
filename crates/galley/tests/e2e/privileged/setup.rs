//! A site whose PHP runs as other users, and the processes of that site.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use galley_testkit::client::{Request, Response};
use galley_testkit::{runs_as_root, skip};

use crate::support::{self, SiteBuilder, TestSite, account, page_value};

/// Prints the user, the groups, and the process IDs of PHP.
pub const USER_PAGE: &str = "<?php echo 'uid=', posix_geteuid(), \"\\ngroups=\", implode(',', posix_getgroups()), \"\\npid=\", getmypid(), \"\\nparent=\", posix_getppid(), \"\\n\";";

/// Galley as `www-data` with three sites: `example.test` with the line `first` and the user `games`, `second.test` with the user
/// `news`, and `own.test` with Galley's user. `None` without root.
pub fn site_builder(first: &str) -> Option<SiteBuilder> {
    if !runs_as_root() {
        skip("only root can change its user");
        return None;
    }
    let second = "[[site]]\nhosts = [\"second.test\"]\nroot = \"{dir}/second\"\nphp = \"managed\"\nphp_workers = 1\nphp_user = \"news\"\n\
                  [[site]]\nhosts = [\"own.test\"]\nroot = \"{dir}/own\"\nphp = \"managed\"\nphp_workers = 1\n";
    let builder = SiteBuilder::upstream_line(first)
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
        let path = builder.scratch.dir(folder).unwrap();
        let (uid, gid) = account(user);
        chown(&path, Some(uid), Some(gid)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        if !["", "galley"].contains(&folder) {
            fs::write(path.join("user.php"), USER_PAGE).unwrap();
        }
    }
    Some(builder)
}

/// Requests the page that prints PHP's user, past the cache.
pub fn request_user_page(site: &TestSite, host: &str) -> Response {
    site.send(Request::form("/user.php", &[("a", "b")]).host(host))
}

/// A value on the page that prints PHP's user.
pub fn php_value(site: &TestSite, host: &str, name: &str) -> u32 {
    let text = request_user_page(site, host).expect_status(200).text();
    page_value(&text, name).parse().unwrap()
}

/// Children that are no zombies, with their command lines.
pub fn children(parent: u32) -> Vec<(u32, String)> {
    let mut all = support::children(parent);
    all.retain(|(_, command_line)| !command_line.is_empty());
    all
}

/// Process ID of the process that keeps root.
pub fn privileged_process(site: &TestSite) -> Option<u32> {
    let all = children(site.galley.pid()).into_iter();
    all.filter(|(_, line)| line == "galley privileged")
        .map(|(pid, _)| pid)
        .next()
}

/// Names of the folders with the files of PHP.
pub fn php_folders(site: &TestSite) -> Vec<String> {
    let all = fs::read_dir(site.scratch.join("galley")).unwrap().flatten();
    all.filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("php-"))
        .collect()
}
