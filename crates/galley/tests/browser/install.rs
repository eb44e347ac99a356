//! `galley plugin install` and `remove`: what they write, for whom, and what they refuse.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use galley_testkit::{Galley, Scratch};
use serde_json::Value;

use super::stack::{Is as _, Stack, binary, install, words};

/// The folder of something that answers on the command line as WordPress does.
fn stand_in() -> (Scratch, PathBuf, PathBuf) {
    let scratch = Scratch::new().unwrap();
    let code = "<?php define('ABSPATH', __DIR__ . '/'); function is_multisite() { return false; } \
                function is_wp_error($x) { return false; } echo 'noise';";
    let plugin = "<?php function activate_plugin($p) { touch(ABSPATH . 'wp-content/active'); } function is_plugin_active($p) { return true; } \
                  function deactivate_plugins($p) { unlink(ABSPATH . 'wp-content/active'); } function is_uninstallable_plugin($p) { return false; }";
    scratch.write("site/wp-load.php", code).unwrap();
    scratch
        .write("site/wp-admin/includes/plugin.php", plugin)
        .unwrap();
    let plugins = scratch.dir("site/wp-content/plugins").unwrap();
    let root = scratch.join("site").canonicalize().unwrap();
    if galley_testkit::runs_as_root() {
        for folder in [root.join("wp-content"), plugins] {
            std::os::unix::fs::chown(folder, Some(33), Some(33)).unwrap();
        }
    }
    let socket = scratch.join("admin.sock");
    let config = scratch
        .write(
            "galley.toml",
            format!(
                "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:{}\"\n[[site]]\nhosts = [\"a.test\"]\nroot = \"{}\"\n",
                socket.display(),
                root.display()
            ),
        )
        .unwrap();
    (scratch, root, config)
}

#[track_caller]
fn json(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{}", words(output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", words(output)))
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn a_second_time_nothing_changes_and_an_older_plugin_is_replaced() {
    let (scratch, root, config) = stand_in();
    let first = json(&install(&root, &config), 0);
    assert_eq!(first["files"], "installed", "{first}");
    assert_eq!(first["token_is_new"], true);
    assert_eq!(first["active"], true);
    assert_eq!(first["connected"], false, "nobody answers there");
    let main = root.join("wp-content/plugins/galley/galley.php");
    let connection = root.join("wp-content/galley-connection.php");
    let token = scratch.join("tokens/a.test.token");
    assert_eq!(
        (mode(&main), mode(&connection), mode(&token)),
        (0o644, 0o600, 0o600)
    );
    if galley_testkit::runs_as_root() {
        let owner = |path: &Path| path.symlink_metadata().unwrap().uid();
        assert_eq!(
            (owner(&main), owner(&connection), owner(&token)),
            (33, 33, 0)
        );
    }
    let secret = fs::read_to_string(&token).unwrap();
    let said = fs::read_to_string(&connection).unwrap();
    assert!(
        said.contains(secret.trim()) && said.contains("admin.sock"),
        "{said}"
    );
    assert!(!root.join("wp-content/plugins/galley/tests").exists());

    let second = json(&install(&root, &config), 0);
    assert_eq!(
        (&second["files"], &second["token_is_new"]),
        (&"unchanged".into(), &false.into())
    );
    assert_eq!(fs::read_to_string(&connection).unwrap(), said);

    let text = fs::read_to_string(&main).unwrap();
    fs::write(&main, text.replace("Version:", "Version: 0.0.1 //")).unwrap();
    fs::write(main.with_file_name("old.php"), "<?php").unwrap();
    let third = json(&install(&root, &config), 0);
    assert_eq!(third["files"], "replaced");
    assert_eq!(fs::read_to_string(&main).unwrap(), text);
    assert!(!main.with_file_name("old.php").exists());
    let left: Vec<_> = fs::read_dir(root.join("wp-content/plugins"))
        .unwrap()
        .collect();
    assert_eq!(left.len(), 1, "nothing is left behind: {left:?}");
}

#[test]
fn the_token_is_known_after_a_start_and_remove_leaves_nothing() {
    let (scratch, root, config) = stand_in();
    json(&install(&root, &config), 0);
    let galley = Galley::start_config(binary(), scratch.path(), &config).unwrap();
    let again = json(&install(&root, &config), 0);
    assert_eq!(again["connected"], true, "{again}");
    let human = Command::new(binary())
        .args(["plugin", "install", "--config"])
        .args([&config, &root])
        .output()
        .unwrap();
    let said = words(&human);
    assert!(
        said.contains("it knows the token") && said.contains("the plugin is active"),
        "{said}"
    );
    let secret = fs::read_to_string(scratch.join("tokens/a.test.token")).unwrap();
    assert!(!said.contains(secret.trim()), "a secret is not shown");
    drop(galley);

    let remove = || {
        Command::new(binary())
            .args(["plugin", "remove"])
            .arg(&root)
            .output()
            .unwrap()
    };
    let removed = remove();
    assert_eq!(removed.status.code(), Some(0), "{}", words(&removed));
    for name in ["plugins/galley", "galley-connection.php", "active"] {
        assert!(!root.join("wp-content").join(name).exists(), "{name}");
    }
}

#[test]
fn what_leads_elsewhere_or_belongs_to_others_is_left_alone() {
    let (scratch, root, config) = stand_in();
    let outside = scratch.dir("outside").unwrap();
    let place = root.join("wp-content/plugins/galley");
    symlink(&outside, &place).unwrap();
    let refused = install(&root, &config);
    assert_eq!(refused.status.code(), Some(1), "{}", words(&refused));
    assert!(words(&refused).contains("is a link"), "{}", words(&refused));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    fs::remove_file(&place).unwrap();

    fs::create_dir(&place).unwrap();
    fs::write(
        place.join("galley.php"),
        "<?php /* Plugin Name: Ship's Kitchen */",
    )
    .unwrap();
    let refused = install(&root, &config);
    assert_eq!(refused.status.code(), Some(1), "{}", words(&refused));
    assert!(
        words(&refused).contains("another plugin"),
        "{}",
        words(&refused)
    );
    fs::remove_dir_all(&place).unwrap();

    // A connection that is a link is replaced, and what it leads to stays.
    let kept = outside.join("kept");
    fs::write(&kept, "kept").unwrap();
    symlink(&kept, root.join("wp-content/galley-connection.php")).unwrap();
    json(&install(&root, &config), 0);
    assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");

    fs::rename(root.join("wp-content"), outside.join("content")).unwrap();
    symlink(outside.join("content"), root.join("wp-content")).unwrap();
    let refused = install(&root, &config);
    assert_eq!(refused.status.code(), Some(1), "{}", words(&refused));
    assert!(
        words(&refused).contains("symbolic link"),
        "{}",
        words(&refused)
    );
}

#[test]
fn wrong_usage_says_what_is_missing() {
    let (scratch, root, config) = stand_in();
    let empty = scratch.dir("empty").unwrap();
    let missing = scratch.join("missing.toml");
    let other = scratch
        .write(
            "other.toml",
            format!(
                "[[site]]\nhosts = [\"b.test\"]\nroot = \"{}\"\n",
                empty.display()
            ),
        )
        .unwrap();
    for (dir, config, wanted) in [
        (&empty, &config, "wp-load.php"),
        (&root, &missing, "cannot be read"),
        (&root, &other, "--site HOST"),
    ] {
        let refused = install(dir, config);
        assert_eq!(refused.status.code(), Some(2), "{}", words(&refused));
        assert!(words(&refused).contains(wanted), "{}", words(&refused));
    }
    let said = Command::new(binary())
        .args(["plugin", "install", "--admin", "http://127.0.0.1:1"])
        .arg(&root)
        .output()
        .unwrap();
    assert_eq!(said.status.code(), Some(2), "{}", words(&said));
    assert!(!root.join("wp-content/plugins/galley").exists());
}

#[test]
fn removed_from_a_wordpress_nothing_of_it_stays_in_the_database() {
    let stack = Stack::start();
    stack.get("/with-cookie/");
    stack.php(
        "update_option('galley_connection', ['address' => 'unix:/x', 'token' => 't']); update_user_meta(1, 'galley_dismissed', ['a']); \
         wp_schedule_event(time() + 600, 'hourly', 'galley_hourly');",
    );
    let removed = Command::new(binary())
        .args(["plugin", "remove"])
        .arg(&stack.wordpress.root)
        .output()
        .unwrap();
    assert_eq!(removed.status.code(), Some(0), "{}", words(&removed));
    let left = stack.php(
        "global $wpdb; echo count($wpdb->get_col(\"SELECT option_name FROM $wpdb->options WHERE option_name LIKE '%galley%'\")), ' ', \
         count($wpdb->get_col(\"SELECT umeta_id FROM $wpdb->usermeta WHERE meta_key LIKE 'galley%'\")), ' ', \
         strpos(serialize(_get_cron_array()), 'galley') === false ? 0 : 1, ' ', \
         count(preg_grep('/galley/', (array) get_option('active_plugins')));",
    );
    assert_eq!(left, "0 0 0 0");
    assert!(
        !stack
            .wordpress
            .root
            .join("wp-content/galley-connection.php")
            .exists()
    );
    stack.get("/").is(200);
}
