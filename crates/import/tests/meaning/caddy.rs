//! Directives of Caddy.

use galley_import::ServerKind;

use super::Fate::{Carried, Lost, NotNeeded, Open};
use super::{Case, check, imported_with};

fn site(text: &str) -> String {
    format!(
        "a.test {{\n\troot * /srv/a\n\tphp_fastcgi unix//run/php.sock\n\tfile_server\n{text}\n}}\n"
    )
}

fn bare(text: &str) -> String {
    text.to_owned()
}

#[test]
fn directives_of_caddy_keep_their_meaning() {
    check(ServerKind::Caddy, CASES, site);
}

const CASES: &[Case] = &[
    Case {
        name: "each path of a matcher",
        text: "@b path /private/* /xmlrpc.php /wp-content/uploads/*.php\nrespond @b 403",
        has: &[
            "pattern = \"(?i)^/private/.*$\"\ndeny",
            "pattern = '(?i)^/xmlrpc\\.php$'\ndeny",
        ],
        lacks: &[],
        fates: &[("@b", Carried), ("respond", Carried)],
    },
    Case {
        name: "paths that are rewritten to WordPress",
        text: "@disallowed path /xmlrpc.php *.sql\nrewrite @disallowed /index.php",
        has: &["pattern = '(?i)^/xmlrpc\\.php$'\ndeny", "sql"],
        lacks: &[],
        fates: &[("rewrite", Lost)],
    },
    Case {
        name: "a matcher of something else",
        text: "@x {\npath /a/*\nheader X-A b\n}\nrespond @x 403",
        has: &[],
        lacks: &["/a/"],
        fates: &[("respond", Open)],
    },
    Case {
        name: "a text",
        text: "respond /health 200\nrespond /secret/* \"no\" 404",
        has: &["pattern = \"(?i)^/secret/.*$\"\ndeny"],
        lacks: &["health"],
        fates: &[("respond /health", Lost), ("respond /secret", Carried)],
    },
    Case {
        name: "passwords",
        text: "basic_auth /a/* {\nanna x\n}\nforward_auth b:1 {\nuri /x\n}",
        has: &["pattern = \"(?i)^/a/.*$\"\ndeny"],
        lacks: &[],
        fates: &[("basic_auth", Lost), ("forward_auth", Open)],
    },
    Case {
        name: "a stripped path",
        text: "handle_path /api/* {\nreverse_proxy b:1\n}\nreverse_proxy /b/* b:2",
        has: &["http://b:2"],
        lacks: &["http://b:1"],
        fates: &[("handle_path", Lost), ("reverse_proxy /b", Carried)],
    },
    Case {
        name: "files that are tried",
        text: "try_files {path} /x.html\nbind 127.0.0.1\nhandle_errors {\nrespond no\n}",
        has: &[],
        lacks: &[],
        fates: &[("try_files", Lost), ("bind", Open), ("handle_errors", Lost)],
    },
    Case {
        name: "refusals that a block is answered before",
        text: "handle /a/* {\nfile_server\n}\nrespond /a/b 403",
        has: &["pattern = \"(?i)^/a/b$\"\ndeny"],
        lacks: &[],
        fates: &[("handle", Lost), ("respond", Lost)],
    },
    Case {
        name: "a block that refuses",
        text: "handle /a/* {\nrespond 403\n}",
        has: &["pattern = \"(?i)^/a/.*$\"\ndeny"],
        lacks: &[],
        fates: &[("handle", Carried), ("respond", Carried)],
    },
    Case {
        name: "fields for paths",
        text: "header /a/* X-A b\nheader X-B c",
        has: &[],
        lacks: &["X-A", "X-B"],
        fates: &[("header /a", Lost), ("header X-B", Lost)],
    },
    Case {
        name: "redirects before refusals",
        text: "respond /a/b 403\nredir /a/* /c",
        has: &["pattern = \"(?i)^/a/b$\"\ndeny"],
        lacks: &["redirect"],
        fates: &[("redir", Lost), ("respond", Lost)],
    },
    Case {
        name: "one host",
        text: "redir https://b.test{uri} permanent",
        has: &["redirect = \"https://b.test/$1\"", "redirect_status = 301"],
        lacks: &["redirect_query"],
        fates: &[("redir", Carried)],
    },
    Case {
        name: "a folder that is listed",
        text: "file_server /x/* browse",
        has: &[],
        lacks: &[],
        fates: &[("file_server /x", Lost), ("file_server", NotNeeded)],
    },
];

#[test]
fn a_host_of_several_sites_has_one() {
    let cases = [
        Case {
            name: "a site for this machine only, before the public one",
            text: "http://a.test:8080 {\n\troot * /srv/private\n}\na.test {\n\troot * /srv/a\n\tphp_fastcgi b:9000\n}\n",
            has: &["root = \"/srv/a\""],
            lacks: &["/srv/private", "8080"],
            fates: &[
                ("http://a.test:8080", Lost),
                ("root * /srv/private", Lost),
                ("a.test", Carried),
            ],
        },
        Case {
            name: "two unknown hosts",
            text: "{$A} {\n\troot * /srv/a\n}\n{$B} {\n\troot * /srv/b\n}\n",
            has: &[],
            lacks: &["/srv/b"],
            fates: &[("{$A}", Lost), ("{$B}", Lost)],
        },
    ];
    check(ServerKind::Caddy, &cases, bare);
}

#[test]
fn variables_of_caddy_are_not_names() {
    let cases = [
        Case {
            name: "a host",
            text: "{$SERVER_NAME:localhost} {\n\troot * /srv/a\n\tphp_fastcgi b:9000\n}\n",
            has: &[],
            lacks: &["SERVER_NAME"],
            fates: &[("{$SERVER_NAME", Lost)],
        },
        Case {
            name: "a root",
            text: "http://*.a.test {\n\troot * /srv/{host}/public\n\tphp_fastcgi b:9000\n}\n",
            has: &[],
            lacks: &["{host}"],
            fates: &[("root", Lost)],
        },
    ];
    check(ServerKind::Caddy, &cases, bare);
}

#[test]
fn files_that_a_caddyfile_imports_are_read() {
    let files = [
        (
            "/etc/server/sites/a",
            "a.test {\n\troot * /srv/a\n\tphp_server\n}\n",
        ),
        ("/etc/server/files", "root * /srv/b\n"),
    ];
    let imported = imported_with(
        ServerKind::Caddy,
        "import sites/*\nb.test {\n\tphp_fastcgi b:9000\n\timport files\n}\n",
        &files,
    );
    for part in [
        "a.test",
        "root = \"/srv/a\"",
        "root = \"/srv/b\"",
        "php = \"managed\"",
    ] {
        assert!(
            imported.configuration.contains(part),
            "{part}: {}",
            imported.configuration
        );
    }
    assert_eq!(super::fate(&imported, "import sites"), Some(NotNeeded));
    assert_eq!(super::fate(&imported, "php_server"), Some(Carried));
}
