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
        name: "two backends",
        text: "backend api { .host = \"127.0.0.1\"; .port = \"3000\"; } sub vcl_recv { if (req.url ~ \"^/api/\") { set req.backend_hint = api; } }",
        has: &["http://127.0.0.1:8080"],
        lacks: &["3000"],
        fates: &[("backend api", Lost), ("if (", Lost)],
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
