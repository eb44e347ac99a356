//! The whole list of names as a table: names that are never sent, names that are sent in some directories, and allowed names.

use super::*;

fn denied(path: &str, multisite: bool) -> bool {
    let options = Options {
        multisite,
        wordpress: true,
        ..Options::default()
    };
    forbids(&parse(path), &options)
}

fn parse(path: &str) -> RelPath {
    RelPath::parse(path.as_bytes()).unwrap()
}

#[test]
fn denied_names() {
    let paths = "
        /.htaccess /.htpasswd /.git/config /a/.svn/entries /.env /.env.local
        /wp-content/.DS_Store /.well-known/.secret /a/.well-known/x /.user.ini
        /wp-config.php /wp-config.php~ /wp-config.php.bak /wp-config.bak
        /wp-config.php.orig /wp-config.old /wp-config.txt /wp-config.php.save
        /wp-config_old.php /wp-config-backup.php /wp-config-2.zip /WP-CONFIG.PHP
        /wp-config.php/ /#wp-config.php# /dump.sql /a/dump.SQL /dump.sql.gz /dump.sql.zip
        /x.bak /x.old /x.orig /x.save /x.php.swp /index.php~ /wp-content/debug.log
        /debug.log.1 /access.log.2.gz /data.sqlite /data.sqlite3 /x.sqlite-journal /x.db
        /x.db-wal /composer.json /composer.lock /package.json /package-lock.json /error_log
        /wp-admin/error_log /php.ini /wp-content/database/x.txt
        /blog/wp-content/database/.ht.sqlite";
    for path in paths.split_whitespace() {
        assert!(denied(path, false), "{path}");
    }
}

#[test]
fn allowed_names() {
    let paths = "
        / /index.php /wp-login.php /readme.html /license.txt
        /.well-known/acme-challenge/tok-en_1 /robots.txt /wp-config-sample.php
        /wp-config-explained/ /wp-config-editor.js /wp-content/plugins/a/composer.json
        /wp-content/plugins/a/package.json /catalog.html /my.log.html /blog /old /a.b.c
        /~user/ /x.sqlx /wp-content/uploads/a.php_.jpg /wp-content/uploads/a.jpg
        /wp-content/cache/min/x.js /log/ /db";
    for path in paths.split_whitespace() {
        assert!(!denied(path, false), "{path}");
    }
}

#[test]
fn scripts_run_only_outside_of_writable_and_core_directories() {
    let paths = "
        /wp-content/uploads/x.php /wp-content/uploads/2020/01/x.php
        /wp-content/uploads/a.jpg/x.php /wp-content/uploads/x.php/y.jpg
        /wp-content/uploads/x.phtml /wp-content/uploads/x.PHP /wp-content/uploads/x.phar
        /wp/wp-content/uploads/x.php /app/uploads/x.php /uploads/x.php /files/x.php
        /wp-content/blogs.dir/2/x.php /wp-content/cache/x.php /wp-content/upgrade/a/x.php
        /wp-includes/version.php /wp-includes/blocks/a/b.php /site2/wp-includes/load.php
        /wp-includes/js/tinymce/x.php /wp-includes/js/tinymce/wp-tinymce.php/x.php";
    for path in paths.split_whitespace() {
        assert!(denied(path, false), "{path}");
    }
    let paths = "
        /wp-includes/js/tinymce/wp-tinymce.php /wp-includes/ms-files.php
        /site2/wp-includes/ms-files.php /wp-content/plugins/a/x.php
        /wp-content/plugins/uploads/x.php /wp-admin/admin-ajax.php /site2/files/x.php
        /wp-content/themes/a/cache/x.php";
    for path in paths.split_whitespace() {
        assert!(!denied(path, false), "{path}");
    }
    assert!(denied("/site2/files/x.php", true));
}

#[test]
fn only_lower_case_php_names_are_scripts() {
    for (name, expected) in [
        ("index.php", ScriptName::Runs),
        ("a.b.php", ScriptName::Runs),
        (".php", ScriptName::Never),
        ("a.PHP", ScriptName::Never),
        ("a.php5", ScriptName::Never),
        ("a.phps", ScriptName::Never),
        ("a.phtml", ScriptName::Never),
        ("a.pht", ScriptName::Never),
        ("a.phar", ScriptName::Never),
        ("a.php~", ScriptName::Never),
        ("a.php_bak", ScriptName::Never),
        ("a.php.txt", ScriptName::Never),
        ("a.php.1", ScriptName::Never),
        ("a.php.zip", ScriptName::Never),
        ("a.php.jpg", ScriptName::Never),
        ("a.php.", ScriptName::Never),
        ("a.php ", ScriptName::Never),
        ("a.php7.html", ScriptName::Never),
        ("a.phar.asc", ScriptName::Never),
        ("php", ScriptName::No),
        ("php.min.js", ScriptName::No),
        ("mode-php.js", ScriptName::No),
        ("a.inc.js", ScriptName::No),
        ("a.html", ScriptName::No),
        ("photo.phg", ScriptName::No),
        ("", ScriptName::No),
    ] {
        assert_eq!(script_name(name.as_bytes()), expected, "{name}");
    }
}

/// Names that scanners request on every site. None of them is sent, with or without the preset.
const SECRETS: &str = "
    /x.inc /wp-content/plugins/a/db.INC /x.inc.txt /x.inc.gz /x.phps /x.php. /x.php..
    /x.php.2024-01-01 /x.php_bak /x.php.gz /x.php.br /x.php7.txt /x.phtml.old
    /site.wpress /wp-content/ai1wm-backups/site.wpress /x.jpa /x.jps /x.daf /x.wpstg
    /backup.zip /site.tar.gz /www.tgz /site.tar /html.7z /www.rar /a.gz /site.zip.001 /a.tar.bz2
    /BACKUP.ZIP /old.tar.xz /public_html.zip.
    /wp-content.zip /wp-content/plugins.zip /wp-content/themes/mine.zip
    /server.key /a/privkey.pem /cert.p12 /cert.pfx /store.jks /x.ppk /keys.kdbx /a.p8 /vpn.ovpn
    /id_rsa.bak /id_ed25519.txt /auth.json /AUTH.JSON /composer.json /compose.yml /pnpm-lock.yaml
    /env.txt /env.local /env.bak /prod.env /config.env /env.production /.env.prod
    /web.config /a/Web.Config /php5.ini /config.ini /my.cnf /nginx.conf /docker-compose.yml
    /docker-compose.prod.yaml /Dockerfile.old /wp-cli.yml /sftp-config.json /filezilla.xml
    /database.yml /secrets.yml /credentials.json /terraform.tfstate /vendor/composer/installed.json
    /a/CVS/Entries /htpasswd.txt /site.htpasswd /htaccess.bak /passwords.txt
    /dump.sql /dump.sql.gz /dump.sql.7z /dump.sql-2024-01-01 /db.dump /a.dmp /x.mdf /x.sql.txt
    /x.bak /x.bak2 /x.bkp /x.bk /x.backup /x.back /x.orig /x.original /x.save /x.swo /x.swn /x.tmp
    /style.css.old /index.html~ /x.rej /a.bak. /x.old%20
    /error_log-20240101 /error_log.gz /php_error_log.1 /debug.log.old /access.log-20240101.gz
    /wp-config1.php.txt /wp-config2.php /wp-config.php.br
    /wp-content/updraft/x.txt /wp-content/backups-dup-lite/a/x.js /wp-content/backup-db/x.txt
    /wp-content/wpvividbackups/a.txt /wp-content/backupwordpress-0f3/x.html /wp-content/wflogs/x
    /wp-content/uploads/backwpup-1a2b-backups/x.txt /wp-content/uploads/backupbuddy_backups/x.js
    /blog/wp-content/updraft/x.txt /WP-CONTENT/Updraft/x.txt /wp-snapshots/x.txt
    /WP-content/UPLOADS/x.php /wp-content/uploads/x.php.jpg /wp-content/uploads/dump.sql.gz
    /wp-content/uploads/site.wpress /wp-content/uploads/x.inc /wp-content/uploads/a.pem";

#[test]
fn secrets_and_sources_are_never_sent() {
    for path in SECRETS.split_whitespace() {
        let path = path.replace("%20", " ");
        assert!(denied(&path, false), "{path}");
    }
}

/// Names that WordPress and its visitors need, and all extensions that browsers show.
const OPEN: &str = "
    /robots.txt /ads.txt /security.txt /.well-known/security.txt /humans.txt /llms.txt
    /sitemap.xml /sitemap.xml.gz /sitemap_index.xml.gz /post-sitemap1.xml /wp-sitemap.xsl
    /readme.txt /license.txt /license /favicon.ico /apple-app-site-association /manifest.json
    /style.css.gz /style.css.br /a.js.zst /a.svgz /fonts/a.woff2 /a.js.map /a.inc.js /php.min.js
    /wp-content/uploads/a.zip /wp-content/uploads/2024/05/a.tar.gz /wp-content/uploads/a.gz
    /wp-content/uploads/a.7z /wp-content/uploads/a.rar /wp-content/uploads/talk.key
    /wp-content/uploads/a.mdb /wp-content/uploads/notes.txt /wp-content/uploads/v1.2.zip
    /blog/wp-content/uploads/a.zip /app/uploads/a.zip /files/a.zip /wp-content/blogs.dir/2/a.zip
    /wp-content/plugins/a/demo/content.zip /wp-content/themes/a/b/x.zip /wp-includes/a/b.zip
    /wp-content/plugins/a/package.json /wp-content/plugins/a/locales/en/auth.json
    /wp-content/plugins/updraftplus/css/a.css /wp-content/plugins/backup/a.js
    /wp-content/et-cache/1/a.css /wp-content/uploads/backup-of-2020/a.jpg
    /id_rsa /id_rsa/ /dockerfile/ /tag/dockerfile /credentials/ /env/ /backup/ /password/ /cvs/
    /wp-config/ /2024-01-01/ /page/2 /a-b-2 /passwords-2 /env-3 /dockerfile-2/ /old /bak /new /zip/ /a.php_.jpg /v1.2.3/
    /wp-includes/certificates/ca-bundle.crt /a.asc /a.pub /openapi.yaml /config.json /env.js";

#[test]
fn names_that_visitors_need_are_allowed() {
    for path in OPEN.split_whitespace() {
        assert!(!denied(path, false), "{path}");
    }
}

#[test]
fn ordinary_words_are_denied_only_if_a_file_has_them() {
    let options = |wordpress| Options {
        wordpress,
        ..Options::default()
    };
    for name in [
        "/id_rsa",
        "/a/ID_ED25519",
        "/Dockerfile",
        "/env",
        "/htpasswd",
        "/id_rsa.",
    ] {
        assert!(forbids_file(&parse(name), &options(true)), "{name}");
        assert!(forbids_file(&parse(name), &options(false)), "{name}");
    }
    for name in ["/deploy.sh", "/a/x.py", "/cgi-bin/x.cgi", "/x.PL"] {
        assert!(is_program(&parse(name), &options(true)), "{name}");
        assert!(!is_program(&parse(name), &options(false)), "{name}");
    }
    for name in ["/license", "/a.js", "/id_rsa.pub", "/x.css"] {
        assert!(!forbids_file(&parse(name), &options(true)), "{name}");
        assert!(!is_program(&parse(name), &options(true)), "{name}");
    }
}

#[test]
fn without_the_preset_archives_are_denied_only_in_the_root() {
    let options = Options::default();
    let denied = |path: &str| forbids(&parse(path), &options);
    for path in SECRETS
        .split_whitespace()
        .filter(|path| !path.contains("wp-content"))
    {
        assert!(denied(&path.replace("%20", " ")), "{path}");
    }
    for path in [
        "/pool/a.tar.gz",
        "/downloads/a.zip",
        "/a.html",
        "/install.sh",
    ] {
        assert!(!denied(path), "{path}");
    }
    assert!(denied("/a.zip") && denied("/downloads/server.key"));
}

#[test]
fn a_site_may_permit_private_names_but_no_sources() {
    let pattern = |text| galley_policy::site::NamePattern::parse(text);
    let options = Options {
        wordpress: true,
        allowed: vec![
            pattern("/downloads/*"),
            pattern("/tool.zip"),
            pattern("/id_rsa"),
        ],
        ..Options::default()
    };
    for path in [
        "/downloads/a.zip",
        "/downloads/b/a.sql",
        "//downloads/a.pem",
        "/tool.zip",
    ] {
        assert!(!forbids(&parse(path), &options), "{path}");
    }
    assert!(!forbids_file(&parse("/id_rsa"), &options));
    for path in [
        "/tool.zip.zip",
        "/other.zip",
        "/Downloads/a.zip",
        "/downloads/x.inc",
        "/downloads/x.php.bak",
        "/downloads/wp-config.old",
        "/downloads/.env",
    ] {
        assert!(forbids(&parse(path), &options), "{path}");
    }
}

#[test]
fn names_with_many_endings_are_checked_in_bounded_time() {
    let long = format!("/{}", "a.gz".repeat(4_000));
    assert!(denied(&long, false));
}
