//! Loading from a folder, text or a file, the interface of errors, defaults, and arbitrary text.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use galley_config::{
    AdminListen, Config, ConfigSource, Diagnostics, UpstreamConfig, default_token_file, from_text,
    load,
};
use galley_policy::route::HostPattern;
use proptest::prelude::*;

fn for_root(root: &Path, listen: Option<SocketAddr>) -> Result<Config, Diagnostics> {
    ConfigSource::root(root, listen).load(&[])
}

#[test]
fn a_wordpress_folder_is_a_site() {
    for name in ["wp-config.php", "wp-load.php", "index.php"] {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(name), "<?php\n").unwrap();
        let config = for_root(root.path(), None).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(
            config.server.listen,
            [galley_config::Listen::Tcp("0.0.0.0:8080".parse().unwrap())]
        );
        assert!(config.files.is_empty());
        let [site] = config.sites.as_slice() else {
            panic!("{:?}", config.sites)
        };
        assert_eq!(site.hosts, [HostPattern::Any]);
        assert_eq!(
            (site.name.as_str(), &site.upstream),
            ("any", &UpstreamConfig::Managed)
        );
        assert_eq!(site.root.as_deref(), Some(root.path()));
        assert_eq!(site.limits.in_flight, 0);
        let listen = "127.0.0.1:9090".parse().unwrap();
        let config = for_root(root.path(), Some(listen)).unwrap();
        assert_eq!(config.server.listen, [galley_config::Listen::Tcp(listen)]);
    }
}

#[test]
fn sharing_pages_requires_a_long_private_key() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("cluster.key");
    let loaded = |lines: &str| {
        let text = format!(
            "[cluster]\nengine = \"redis://a\"\n{lines}\n[[site]]\nhosts = [\"a.test\"]\nroot = \"/\"\n"
        );
        let config = from_text("galley.toml", &text).map_err(|error| error.to_string())?;
        let cluster = config.cluster.unwrap();
        assert_eq!(cluster.key_file.is_some(), lines.contains("key_file"));
        Ok::<_, String>(cluster.pages)
    };
    let line = format!("key_file = \"{}\"", key.display());
    let write = |length: usize, mode: u32| {
        fs::write(&key, "k".repeat(length)).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
    };
    for (length, mode, expected) in [
        (31, 0o600, "shorter than 32 bytes"),
        (32, 0o644, "other users can access"),
    ] {
        write(length, mode);
        let error = loaded(&line).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    write(32, 0o600);
    let pages = loaded(&line).unwrap().unwrap();
    assert_eq!(pages.most_bytes, 1 << 20);
    assert_eq!(pages.lifetime, Duration::from_secs(86_400));
    assert_eq!(loaded(&format!("{line}\npages = 0")).unwrap(), None);
    assert_eq!(loaded("").unwrap(), None);
    let error = loaded("pages = \"1MiB\"").unwrap_err();
    assert!(
        error.contains("has no effect without `key_file`"),
        "{error}"
    );
}

#[test]
fn without_a_cluster_key_each_node_orders_its_own_certificates() {
    let warnings = |tls: &str| {
        let text = format!(
            "[server]\nlisten_tls = [\"127.0.0.1:0\"]\n[cluster]\nengine = \"redis://a\"\n\
             [[site]]\nhosts = [\"a.test\"]\nroot = \"/\"\n{tls}"
        );
        from_text("galley.toml", &text).map(|config| config.warnings)
    };
    let found = warnings("tls = \"auto\"").unwrap();
    let [warning] = found.as_slice() else {
        panic!("{found:?}")
    };
    let expected = "each node orders a certificate of its own";
    assert!(warning.message.contains(expected), "{warning}");
    assert_eq!(warning.spot, "galley.toml:4");
}

#[test]
fn a_token_next_to_the_configuration_is_used_by_default() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("galley.toml");
    let site =
        |hosts: &str, more: &str| format!("[[site]]\nhosts = [{hosts}]\nroot = \".\"\n{more}\n");
    let loaded = |text: &str| {
        fs::write(&file, text).unwrap();
        load(&file).map(|config| config.sites[0].token_file.clone())
    };
    assert_eq!(loaded(&site("\"a.test\", \"b.test\"", "")).unwrap(), None);
    for (hosts, first) in [
        ("\"a.test\", \"b.test\"", "a.test"),
        ("\"*.c.test\"", "any.c.test"),
        ("\"*\"", "any"),
    ] {
        let token = dir.path().join(format!("tokens/{first}.token"));
        fs::create_dir_all(token.parent().unwrap()).unwrap();
        fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
        let error = loaded(&site(hosts, "")).unwrap_err().to_string();
        assert!(error.contains("other users can access"), "{error}");
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(
            loaded(&site(hosts, "")).unwrap(),
            Some(token.clone()),
            "{hosts}"
        );
        // `token_file` replaces the default.
        let other = dir.path().join("other.token");
        fs::copy(&token, &other).unwrap();
        let configured = loaded(&site(hosts, "token_file = \"other.token\"")).unwrap();
        assert_eq!(configured, Some(other));
    }
    let path = default_token_file(Path::new("/etc/galley"), "x.test");
    assert_eq!(path, Path::new("/etc/galley/tokens/x.test.token"));
}

#[test]
fn a_token_of_one_of_its_hosts_stays_the_token_of_a_site() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("galley.toml");
    fs::create_dir(dir.path().join("tokens")).unwrap();
    let token = |name: &str| {
        let path = dir.path().join(format!("tokens/{name}.token"));
        fs::write(&path, "0123456789abcdef0123456789abcdef\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let loaded = |sites: &[&str]| -> Vec<_> {
        let sections = sites
            .iter()
            .map(|lines| format!("[[site]]\nroot = \".\"\n{lines}\n"));
        fs::write(&file, sections.collect::<String>()).unwrap();
        let config = load(&file).unwrap();
        config
            .sites
            .into_iter()
            .map(|site| site.token_file)
            .collect()
    };
    let www = token("www.a.test");
    for hosts in [
        "hosts = [\"www.a.test\", \"a.test\"]",
        "hosts = [\"a.test\", \"www.a.test\"]",
    ] {
        assert_eq!(loaded(&[hosts]), [Some(www.clone())], "{hosts}");
    }
    let named = "name = \"shop\"\nhosts = [\"a.test\", \"www.a.test\"]";
    assert_eq!(loaded(&[named]), [Some(www)]);
    let shop = token("shop");
    assert_eq!(loaded(&[named]), [Some(shop)]);
    // The token of another site, which has the same host on another listener.
    let other = "hosts = [\"a.test\", \"b.test\"]\nlisten = [\"127.0.0.1:8001\"]";
    let own = "hosts = [\"b.test\"]\nlisten = [\"127.0.0.1:8002\"]";
    let b = token("b.test");
    assert_eq!(loaded(&[other, own]), [None, Some(b)]);
}

#[test]
fn a_folder_without_wordpress_is_rejected_and_the_expected_files_are_named() {
    let root = tempfile::tempdir().unwrap();
    let errors = for_root(root.path(), None).unwrap_err();
    assert_eq!(errors.len(), 1);
    let text = errors.to_string();
    for name in ["wp-config.php", "wp-load.php", "index.php"] {
        assert!(text.contains(name), "{text}");
    }
    let errors = for_root(&root.path().join("none"), None).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors}");
    assert!(
        errors.to_string().contains("which does not exist"),
        "{errors}"
    );
}

#[test]
fn a_missing_file_is_reported() {
    let errors = load(Path::new("/nowhere/galley.toml")).unwrap_err();
    let all: Vec<_> = errors.iter().collect();
    assert_eq!(all.len(), 1, "{errors}");
    assert_eq!((all[0].line, all[0].column), (0, 0));
    assert_eq!(all[0].file, Path::new("/nowhere/galley.toml"));
    assert!(all[0].message.contains("cannot be read"));
}

#[test]
fn a_file_with_invalid_utf8_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("galley.toml");
    fs::write(&file, b"[server]\n# \xff\n").unwrap();
    let errors = load(&file).unwrap_err();
    assert!(
        errors.to_string().contains("line 2 is not UTF-8"),
        "{errors}"
    );
}

#[test]
fn errors_have_a_position_and_a_hint() {
    let errors = from_text(
        "a.toml",
        "[server]\n  worker = 3\n[[site]]\nhosts = [\"a\"]\nroot = \"/\"\n",
    )
    .unwrap_err();
    let all: Vec<_> = errors.iter().collect();
    assert_eq!(all.len(), 1, "{errors}");
    assert_eq!((all[0].line, all[0].column), (2, 3));
    assert_eq!(all[0].option, "server.worker");
    assert_eq!(all[0].help, "did you mean `workers`?");
}

#[test]
fn an_option_that_only_other_servers_have_is_not_taken_for_another() {
    for (name, section) in [
        ("http3", "[server]"),
        ("quic", "[server]"),
        ("quic", "[[site]]"),
        ("http2", "[server]"),
    ] {
        let text = format!("[[site]]\nhosts = [\"a\"]\nroot = \"/\"\n{section}\n{name} = true\n");
        let errors = from_text("a.toml", &text).unwrap_err();
        let mut all = errors.iter().filter(|one| one.option.ends_with(name));
        let help = &all.next().unwrap().help;
        assert!(
            help.starts_with("remove it: "),
            "{name} in {section}: {help}"
        );
    }
}

#[test]
fn default_values() {
    let config = from_text("a.toml", "[[site]]\nhosts = [\"a\"]\nroot = \"/\"\n").unwrap();
    let server = &config.server;
    assert_eq!((server.process.workers, server.max_connections), (0, 0));
    assert_eq!(
        (server.request_body, server.head_size),
        (32 << 20, 32 << 10)
    );
    let times = [
        server.head_timeout,
        server.idle_timeout,
        server.body_timeout,
        server.write_timeout,
        server.drain_timeout,
    ];
    assert_eq!(times, [10, 60, 30, 30, 15].map(Duration::from_secs));
    assert!(
        matches!(&config.admin.listen, AdminListen::Unix(path) if path.ends_with("admin.sock") && path.is_absolute())
    );
    assert!(config.cache.memory >= 16 << 20 && config.cache.max_object <= config.cache.memory);
    let limits = &config.sites[0].limits;
    assert_eq!((limits.in_flight, limits.queue), (20, 200));
    assert_eq!(
        (limits.lock_age, limits.waiters),
        (Duration::from_secs(5), 10_000)
    );
    assert_eq!(config.sites[0].upstream, UpstreamConfig::Files);
    assert_eq!(config.sites[0].listen, server.listen);
}

/// Parts of almost valid files.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("[[site]]\n".to_owned()),
        Just("[server]\n".to_owned()),
        Just("[[site.rule]]\n".to_owned()),
        Just("[site.ttl]\n".to_owned()),
        Just("[cache]\n".to_owned()),
        ("[a-z_]{1,8}", "[ -~äß\n\t\u{202e}]{0,12}")
            .prop_map(|(name, value)| format!("{name} = \"{value}\"\n")),
        (
            "(hosts|listen|upstream|methods|ignore|purge_allow|ignore_query)",
            "[ -~é]{0,12}"
        )
            .prop_map(|(name, value)| format!("{name} = ['{value}', \"{value}\"]\n")),
        (
            "(php|root|path|ttl|memory|token_file|level|access)",
            "[ -~é]{0,12}"
        )
            .prop_map(|(name, value)| format!("{name} = '{value}'\n")),
        ("\"?[0-9]{1,5}\"?", "\"?[0-9]{1,22}[a-zA-Z]{0,3}\"?")
            .prop_map(|(name, value)| format!("{name} = {value}\n")),
        "[ -~\u{0}-\u{1f}é]{0,20}",
    ]
}

proptest! {
    #[test]
    fn arbitrary_text_results_in_a_configuration_or_errors(pieces in prop::collection::vec(piece(), 0..12)) {
        if let Err(errors) = from_text("/nowhere/a.toml", &pieces.concat()) {
            prop_assert!(!errors.is_empty());
            prop_assert!(errors.iter().all(|error| !error.help.is_empty()));
            let escapes = errors.to_string().contains('\u{1b}');
            prop_assert!(!escapes);
        }
    }
}

#[test]
fn a_rule_that_denies_pages_warns_about_its_limits() {
    let site = |lines: &str| {
        let text = format!(
            "[[site]]\nhosts = [\"example.com\"]\nupstream = [\"http://127.0.0.1:1\"]\n{lines}\n"
        );
        from_text("galley.toml", &text).unwrap().warnings
    };
    let rule = |path: &str, line: &str| format!("[[site.rule]]\npath = \"{path}\"\n{line}");
    let warnings = site(&rule("/internal/*", "deny = [\"192.0.2.1\"]"));
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}")
    };
    assert!(warning.message.contains("`/internal/*`"), "{warning}");
    for without_warning in [
        rule("/internal/*", "ttl = \"1m\""),
        rule("/search*", "limit = { rate = \"10/m\" }"),
        rule("/wp-json/*", "deny = [\"192.0.2.1\"]"),
        format!(
            "preset = \"none\"\n{}",
            rule("/internal/*", "deny = [\"192.0.2.1\"]")
        ),
    ] {
        assert_eq!(site(&without_warning), [], "{without_warning}");
    }
}
