//! Statements of VCL.

use galley_import::ServerKind;

use super::Fate::{Carried, Lost, NotNeeded, Open};
use super::{Case, check};

fn file(text: &str) -> String {
    format!("vcl 4.1;\nbackend default {{ .host = \"127.0.0.1\"; .port = \"8080\"; }}\n{text}\n")
}

#[test]
fn statements_of_vcl_keep_their_meaning() {
    check(ServerKind::Varnish, CASES, file);
}

const CASES: &[Case] = &[
    Case {
        name: "the scheme that a proxy names",
        text: "sub vcl_recv { if (req.http.X-Forwarded-Proto != \"https\") { return (synth(750, \"\")); } }",
        has: &[],
        lacks: &["https_redirect"],
        fates: &[("if (", Lost)],
    },
    Case {
        name: "a field by the scheme",
        text: "sub vcl_recv { if (req.http.X-Forwarded-Proto == \"https\") { set req.http.X-Forwarded-Port = \"443\"; } }",
        has: &[],
        lacks: &["https_redirect"],
        fates: &[("if (", Lost), ("set req.http.X-Forwarded-Port", Lost)],
    },
    Case {
        name: "backends of paths",
        text: "backend api { .host = \"127.0.0.1\"; .port = \"3000\"; .first_byte_timeout = 500000s; .connect_timeout = 5s; } backend img { .host = \"127.0.0.1\"; .port = \"3001\"; }
               sub vcl_recv { if (req.method == \"PURGE\") { return (synth(405)); } if (req.url ~ \"^/secret\") { return (synth(404)); }
               if (req.url ~ \"^/api/\" || req.url ~ \"^/v2/\") { set req.backend_hint = api; return (pass); } if (req.url ~ \"^/img\") { set req.backend_hint = img; } return (hash); }",
        has: &[
            "\nupstream = [\"http://127.0.0.1:8080\"]",
            "path = \"/api/*\"\ncache = false\nupstream = [\"http://127.0.0.1:3000\"]\nfirst_byte_timeout = \"1d\"",
            "path = \"/v2/*\"\ncache = false\nupstream = [\"http://127.0.0.1:3000\"]",
            "path = \"/img*\"\nupstream = [\"http://127.0.0.1:3001\"]",
        ],
        lacks: &["500000s", "connect_timeout"],
        fates: &[
            ("backend api", Carried),
            ("if (req.url ~ ^/api", Carried),
            ("if (req.url ~ ^/img", Carried),
            (".first_byte_timeout", Lost),
            (".connect_timeout", Lost),
        ],
    },
    Case {
        name: "another backend for all requests",
        text: "backend two { .host = \"b\"; }\nsub vcl_recv { set req.backend_hint = two; }",
        has: &[],
        lacks: &["http://b"],
        fates: &[("backend two", Lost), ("set req.backend_hint", Lost)],
    },
    Case {
        name: "lifetimes",
        text: "sub vcl_backend_response { set beresp.ttl = 1h; if (bereq.url ~ \"x\") { set beresp.ttl = 2h; } }",
        has: &[],
        lacks: &["ttl"],
        fates: &[("set beresp.ttl = 1h", Lost), ("if (", Lost)],
    },
    Case {
        name: "a grace above the maximum",
        text: "sub vcl_backend_response { set beresp.grace = 500000000s; }",
        has: &[],
        lacks: &["stale"],
        fates: &[("set beresp.grace", Lost)],
    },
    Case {
        name: "purges",
        text: "acl purge { \"127.0.0.1\"; \"192.0.2.0\"/24; } sub vcl_recv { if (req.method == \"PURGE\") { if (!client.ip ~ purge) { return (synth(405, \"no\")); } return (purge); } }",
        has: &["purge_allow = [\"127.0.0.1\", \"192.0.2.0/24\"]"],
        lacks: &[],
        fates: &[
            ("acl purge", Carried),
            ("if (req.method == PURGE", NotNeeded),
        ],
    },
    Case {
        name: "denials",
        text: "acl office { \"192.0.2.0\"/24; } sub vcl_recv { if (req.url ~ \"^/wp-admin\" && !(client.ip ~ office)) { return (synth(403, \"no\")); } }",
        has: &[],
        lacks: &[],
        fates: &[("if (", Open)],
    },
    Case {
        name: "half a million seconds",
        text: "sub vcl_backend_response { set beresp.ttl = 500000s; set beresp.grace = 500000s; }",
        has: &[],
        lacks: &["500000s"],
        fates: &[("set beresp.ttl", Lost), ("set beresp.grace", Lost)],
    },
    Case {
        name: "denials by the whole address, which has the query",
        text: "sub vcl_recv { if (req.url ~ \"^/internal\") { return (synth(403)); } if (req.url ~ \"[.]sql$\") { return (synth(403)); } }",
        has: &["path = \"/internal*\"\ndeny", "[.]sql$"],
        lacks: &[],
        fates: &[
            ("if (req.url ~ ^/internal", Carried),
            ("if (req.url ~ [.]sql", Open),
        ],
    },
    Case {
        name: "a denial after requests that are passed",
        text: "sub vcl_recv { if (req.url ~ \"^/a/\") { return (pass); } if (req.url ~ \"^/internal\") { return (synth(403)); } }",
        has: &["path = \"/internal*\"\ndeny"],
        lacks: &["cache = false"],
        fates: &[
            ("if (req.url ~ ^/a/", Lost),
            ("if (req.url ~ ^/internal", Lost),
        ],
    },
    Case {
        name: "fields that Galley does not send, and others",
        text: "sub vcl_deliver { unset resp.http.Server; unset resp.http.X-A; std.log(\"x\"); if (obj.hits > 0) { unset resp.http.Via; } }",
        has: &[],
        lacks: &["remove_headers"],
        fates: &[
            ("unset resp.http.Server", NotNeeded),
            ("unset resp.http.X-A", Lost),
            ("std.log", Lost),
            ("if (obj.hits", Lost),
            ("unset resp.http.Via", NotNeeded),
        ],
    },
    Case {
        name: "two lists for one folder",
        text: "acl a { \"10.0.0.0\"/8; \"192.0.2.1\"; } acl b { \"192.0.2.1\"; } sub vcl_recv { if (req.url ~ \"^/office\" && client.ip !~ a) { return (synth(403)); } if (req.url ~ \"^/office\" && client.ip !~ b) { return (synth(403)); } }",
        has: &["allow = [\"192.0.2.1\"]"],
        lacks: &["10.0.0.0"],
        fates: &[("acl a", Carried)],
    },
    Case {
        name: "cookies that are passed after some pages are stored",
        text: "sub vcl_recv { if (req.url ~ \"x\") { return (hash); } if (req.http.cookie ~ \"my_member\") { return (pass); } }",
        has: &["bypass_cookies = [\"my_member*\"]"],
        lacks: &[],
        fates: &[("if (req.http.cookie", Lost)],
    },
    Case {
        name: "conditions on what earlier statements change",
        text: "sub vcl_recv { set req.url = std.querysort(req.url); if (req.url ~ \"^/open\") { return (synth(403)); } if (req.http.host == \"a\") { set req.url = regsub(req.url, \"^/app\", \"\"); unset req.http.Cookie; }
               if (req.url ~ \"^/secret\") { return (synth(403)); } if (req.http.cookie ~ \"my_member\") { return (pass); } }",
        has: &["path = \"/open*\"\ndeny", "path = \"/secret*\"\ndeny"],
        lacks: &[],
        fates: &[
            ("if (req.url ~ ^/open", Carried),
            ("if (req.url ~ ^/secret", Open),
            ("if (req.http.cookie", Lost),
        ],
    },
    Case {
        name: "a refusal after another subroutine",
        text: "sub own { if (req.url ~ \"x\") { return (pass); } }\nsub vcl_recv { call own; if (req.url ~ \"^/secret\") { return (synth(403)); } }",
        has: &["path = \"/secret*\"\ndeny"],
        lacks: &[],
        fates: &[("if (req.url ~ ^/secret", Lost)],
    },
    Case {
        name: "a subroutine in two parts",
        text: "sub vcl_recv { if (req.url ~ \"x\") { return (pass); } }\nsub vcl_recv { if (req.url ~ \"^/secret\") { return (synth(403)); } }",
        has: &["path = \"/secret*\"\ndeny"],
        lacks: &[],
        fates: &[("if (req.url ~ ^/secret", Lost)],
    },
    Case {
        name: "cookies and fields that are passed",
        text: "sub vcl_recv { if (req.http.Authorization) { return (pass); } if (req.http.cookie ~ \"wordpress_logged_in|my_member\") { return (pass); } }",
        has: &["bypass_cookies = [\"my_member*\"]"],
        lacks: &[],
        fates: &[
            ("if (req.http.Authorization", NotNeeded),
            ("if (req.http.cookie", Carried),
        ],
    },
    Case {
        name: "programs in other subroutines",
        text: "sub vcl_hash { hash_data(req.http.Cookie); } sub vcl_synth { set resp.http.Location = \"x\"; } sub own { return (pass); }",
        has: &[],
        lacks: &[],
        fates: &[
            ("sub vcl_hash", Lost),
            ("sub vcl_synth", Lost),
            ("sub own", Lost),
        ],
    },
];

/// The routes of two backends, with other statements that may change what a condition means.
#[test]
fn backends_of_paths_are_carried_only_if_nothing_else_takes_part() {
    let api = "if (req.url ~ \"^/api/\") { set req.backend_hint = api; }";
    for (name, receive, others) in [
        ("no statement", api.to_owned(), ""),
        (
            "a return before it",
            format!("if (req.method != \"GET\") {{ return (pass); }} {api}"),
            "",
        ),
        ("a subroutine before it", format!("call own; {api}"), ""),
        (
            "a path that changes",
            format!("{api} set req.url = regsub(req.url, \"^/x\", \"/api\");"),
            "",
        ),
        (
            "another choice",
            format!("{api} if (req.http.host == \"a.test\") {{ set req.backend_hint = default; }}"),
            "",
        ),
        (
            "a choice at the backend",
            api.to_owned(),
            "sub vcl_backend_fetch { set bereq.backend = api; }",
        ),
        (
            "a prefix of another one",
            format!("{api} if (req.url ~ \"^/api/v2/\") {{ set req.backend_hint = default; }}"),
            "",
        ),
        (
            "every other path",
            format!("{api} else {{ set req.backend_hint = default; }}"),
            "",
        ),
        (
            "a pattern",
            "if (req.url ~ \"^/a.i/\") { set req.backend_hint = api; }".to_owned(),
            "",
        ),
        (
            "two conditions",
            "if (req.url ~ \"^/api/\" && req.http.a == \"b\") { set req.backend_hint = api; }"
                .to_owned(),
            "",
        ),
        (
            "the opposite",
            "if (req.url !~ \"^/api/\") { set req.backend_hint = api; }".to_owned(),
            "",
        ),
        (
            "a list of clients for some of the paths",
            format!(
                "if (req.url ~ \"^/api/v2\" && client.ip !~ office) {{ return (synth(403)); }} {api}"
            ),
            "acl office { \"192.0.2.1\"; }",
        ),
    ] {
        let text = file(&format!(
            "backend api {{ .host = \"127.0.0.1\"; .port = \"3000\"; }} sub vcl_recv {{ {receive} }} {others}"
        ));
        let imported = super::imported(ServerKind::Varnish, &text);
        let is_carried = imported.configuration.contains("127.0.0.1:3000");
        assert_eq!(is_carried, name == "no statement", "{name}\n{text}");
        let fate = super::fate(&imported, "backend api");
        let wanted = if is_carried { Carried } else { Lost };
        assert_eq!(fate, Some(wanted), "{name}\n{text}");
    }
}
