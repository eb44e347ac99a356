//! `galley plugin install` and `remove`: written files and their owners, and rejected targets.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use galley_testkit::{Galley, Options, Scratch, WordPress};
use serde_json::Value;

use super::site::{AssertStatus as _, PluginSite, binary, install, output_text};

/// Creates the directory of a fake WordPress that supports the functions used on the command line.
fn fake_wordpress() -> (Scratch, PathBuf, PathBuf) {
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
        for directory in [root.join("wp-content"), plugins] {
            std::os::unix::fs::chown(directory, Some(33), Some(33)).unwrap();
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
    assert_eq!(output.status.code(), Some(code), "{}", output_text(output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", output_text(output)))
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn install_takes_the_token_of_the_site_with_the_root_among_sites_of_one_host() {
    let (scratch, root, config) = fake_wordpress();
    let other = scratch.dir("other").unwrap();
    let mut text = fs::read_to_string(&config).unwrap();
    text = text.replace("[[site]]", &format!(
        "[[site]]\nhosts = [\"a.test\", \"c.test\"]\nlisten = [\"127.0.0.1:8091\"]\nroot = \"{}\"\ntoken_file = \"{}\"\n[[site]]\nlisten = [\"127.0.0.1:8092\"]\ntoken_file = \"{}\"",
        other.display(),
        scratch.join("first.token").display(),
        scratch.join("second.token").display(),
    ));
    fs::write(&config, text).unwrap();
    for name in ["first", "second"] {
        let file = scratch
            .write(
                &format!("{name}.token"),
                format!("{name}-token-of-this-site-0123456789"),
            )
            .unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let run = |site: &str| {
        let mut command = Command::new(binary());
        command.args(["plugin", "install", "--json", "--site", site, "--config"]);
        command.arg(&config).arg(&root).output().unwrap()
    };
    let done = json(&run("a.test"), 0);
    let file = done["token_file"].as_str().unwrap();
    assert!(file.ends_with("second.token"), "{done}");
    // The only site with this host; its root has another path here.
    let done = json(&run("c.test"), 0);
    assert!(
        done["token_file"]
            .as_str()
            .unwrap()
            .ends_with("first.token"),
        "{done}"
    );
    let wrong = run("b.test");
    assert_eq!(wrong.status.code(), Some(2), "{}", output_text(&wrong));
}

#[test]
fn install_is_idempotent_and_replaces_an_older_plugin() {
    let (scratch, root, config) = fake_wordpress();
    let first = json(&install(&root, &config), 0);
    assert_eq!(first["files"], "installed", "{first}");
    assert_eq!(first["token_is_new"], true);
    assert_eq!(first["active"], true);
    assert_eq!(first["connected"], false, "nothing listens on the socket");
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
    let connection_file = fs::read_to_string(&connection).unwrap();
    assert!(
        connection_file.contains(secret.trim()) && connection_file.contains("admin.sock"),
        "{connection_file}"
    );
    assert!(!root.join("wp-content/plugins/galley/tests").exists());

    let second = json(&install(&root, &config), 0);
    assert_eq!(
        (&second["files"], &second["token_is_new"]),
        (&"unchanged".into(), &false.into())
    );
    assert_eq!(fs::read_to_string(&connection).unwrap(), connection_file);

    let text = fs::read_to_string(&main).unwrap();
    fs::write(&main, text.replace("Version:", "Version: 0.0.1 //")).unwrap();
    fs::write(main.with_file_name("old.php"), "<?php").unwrap();
    let third = json(&install(&root, &config), 0);
    assert_eq!(third["files"], "replaced");
    assert_eq!(fs::read_to_string(&main).unwrap(), text);
    assert!(!main.with_file_name("old.php").exists());
    let remaining: Vec<_> = fs::read_dir(root.join("wp-content/plugins"))
        .unwrap()
        .collect();
    assert_eq!(remaining.len(), 1, "temporary files remain: {remaining:?}");
}

#[test]
fn galley_accepts_the_token_and_remove_deletes_all_files() {
    let (scratch, root, config) = fake_wordpress();
    json(&install(&root, &config), 0);
    let galley = Galley::start_config(binary(), scratch.path(), &config).unwrap();
    let again = json(&install(&root, &config), 0);
    assert_eq!(again["connected"], true, "{again}");
    let output = Command::new(binary())
        .args(["plugin", "install", "--config"])
        .args([&config, &root])
        .output()
        .unwrap();
    let text = output_text(&output);
    assert!(
        text.contains("it knows the token") && text.contains("the plugin is active"),
        "{text}"
    );
    let secret = fs::read_to_string(scratch.join("tokens/a.test.token")).unwrap();
    assert!(
        !text.contains(secret.trim()),
        "the output contains the token"
    );
    drop(galley);

    let remove = || {
        Command::new(binary())
            .args(["plugin", "remove"])
            .arg(&root)
            .output()
            .unwrap()
    };
    let removed = remove();
    assert_eq!(removed.status.code(), Some(0), "{}", output_text(&removed));
    for name in ["plugins/galley", "galley-connection.php", "active"] {
        assert!(!root.join("wp-content").join(name).exists(), "{name}");
    }
}

#[test]
fn install_rejects_symbolic_links_and_foreign_plugins() {
    let (scratch, root, config) = fake_wordpress();
    let outside = scratch.dir("outside").unwrap();
    let directory = root.join("wp-content/plugins/galley");
    symlink(&outside, &directory).unwrap();
    let rejected = install(&root, &config);
    assert_eq!(
        rejected.status.code(),
        Some(1),
        "{}",
        output_text(&rejected)
    );
    assert!(
        output_text(&rejected).contains("is a link"),
        "{}",
        output_text(&rejected)
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    fs::remove_file(&directory).unwrap();

    fs::create_dir(&directory).unwrap();
    fs::write(
        directory.join("galley.php"),
        "<?php /* Plugin Name: Ship's Kitchen */",
    )
    .unwrap();
    let rejected = install(&root, &config);
    assert_eq!(
        rejected.status.code(),
        Some(1),
        "{}",
        output_text(&rejected)
    );
    assert!(
        output_text(&rejected).contains("another plugin"),
        "{}",
        output_text(&rejected)
    );
    fs::remove_dir_all(&directory).unwrap();

    // A connection file that is a symbolic link is replaced, and its target is not changed.
    let target = outside.join("kept");
    fs::write(&target, "kept").unwrap();
    symlink(&target, root.join("wp-content/galley-connection.php")).unwrap();
    json(&install(&root, &config), 0);
    assert_eq!(fs::read_to_string(&target).unwrap(), "kept");

    fs::rename(root.join("wp-content"), outside.join("content")).unwrap();
    symlink(outside.join("content"), root.join("wp-content")).unwrap();
    let rejected = install(&root, &config);
    assert_eq!(
        rejected.status.code(),
        Some(1),
        "{}",
        output_text(&rejected)
    );
    assert!(
        output_text(&rejected).contains("symbolic link"),
        "{}",
        output_text(&rejected)
    );
}

#[test]
fn usage_errors_name_what_is_missing() {
    let (scratch, root, config) = fake_wordpress();
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
    for (dir, config, expected) in [
        (&empty, &config, "wp-load.php"),
        (&root, &missing, "cannot be read"),
        (&root, &other, "--site NAME"),
    ] {
        let rejected = install(dir, config);
        assert_eq!(
            rejected.status.code(),
            Some(2),
            "{}",
            output_text(&rejected)
        );
        assert!(
            output_text(&rejected).contains(expected),
            "{}",
            output_text(&rejected)
        );
    }
    let rejected = Command::new(binary())
        .args(["plugin", "install", "--admin", "http://127.0.0.1:1"])
        .arg(&root)
        .output()
        .unwrap();
    assert_eq!(
        rejected.status.code(),
        Some(2),
        "{}",
        output_text(&rejected)
    );
    assert!(!root.join("wp-content/plugins/galley").exists());
}

#[test]
fn remove_deletes_all_plugin_data_from_the_database() {
    let site = PluginSite::start();
    site.get("/with-cookie/");
    site.php(
        "update_option('galley_connection', ['address' => 'unix:/x', 'token' => 't']); update_user_meta(1, 'galley_dismissed', ['a']); \
         wp_schedule_event(time() + 600, 'hourly', 'galley_hourly');",
    );
    let removed = Command::new(binary())
        .args(["plugin", "remove"])
        .arg(&site.wordpress.root)
        .output()
        .unwrap();
    assert_eq!(removed.status.code(), Some(0), "{}", output_text(&removed));
    let remaining = site.php(
        "global $wpdb; echo count($wpdb->get_col(\"SELECT option_name FROM $wpdb->options WHERE option_name LIKE '%galley%'\")), ' ', \
         count($wpdb->get_col(\"SELECT umeta_id FROM $wpdb->usermeta WHERE meta_key LIKE 'galley%'\")), ' ', \
         strpos(serialize(_get_cron_array()), 'galley') === false ? 0 : 1, ' ', \
         count(preg_grep('/galley/', (array) get_option('active_plugins')));",
    );
    assert_eq!(remaining, "0 0 0 0");
    assert!(
        !site
            .wordpress
            .root
            .join("wp-content/galley-connection.php")
            .exists()
    );
    site.get("/").assert_status(200);
    // What the next `make demo` does: the marker of the sample site is not the plugin's.
    WordPress::install(&site.wordpress.root, &site.database, &Options::default()).unwrap();
}
