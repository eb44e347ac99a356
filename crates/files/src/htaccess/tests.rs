//! Tests: each form of `.htaccess` that plugins and site owners use, and the resulting access of the public.

use super::*;
use crate::path::RelPath;
use std::sync::Arc;

use PublicAccess::{Denied, Public, Unchecked};

/// The access to a file. `texts`: the `.htaccess` of the root and of each deeper directory.
fn access_of(texts: &[&str], path: &str, subject: AccessSubject) -> PublicAccess {
    let chain: Vec<Arc<Rules>> = texts
        .iter()
        .map(|text| Arc::new(parse::parse(text.as_bytes())))
        .collect();
    let path = RelPath::parse(path.as_bytes()).unwrap();
    let name = path.segment(chain.len() - 1).unwrap_or_default().to_vec();
    evaluate(&chain, &path, &name, subject)
}

#[track_caller]
fn check(text: &str, path: &str, expected: PublicAccess) {
    assert_eq!(
        access_of(&[text], path, AccessSubject::File),
        expected,
        "{path} with\n{text}"
    );
}

#[test]
fn directives_apply_to_the_whole_directory() {
    for (text, expected) in [
        ("", Public),
        ("# Require all denied", Public),
        ("garbage <<< >>>\n</Files>\n<\n</\n\0\u{1}", Public),
        ("Options -Indexes\nphp_flag engine off", Public),
        ("Require all denied", Denied),
        ("  rEQUIRE   ALL\tDENIED  ", Denied),
        ("Require \\\n all denied\r\n", Denied),
        ("\u{feff}Require all denied", Denied),
        ("Require all denied\nRequire all granted", Public),
        ("Require all granted", Public),
        ("Require not all granted", Denied),
        ("Deny from all", Denied),
        ("deny from ALL", Denied),
        ("Order deny,allow\nDeny from all", Denied),
        ("Order Allow,Deny\nDeny from all", Denied),
        ("Order allow,deny", Denied),
        ("Order allow,deny\nAllow from all", Public),
        (
            "Order allow,deny\nAllow from all\nDeny from 192.0.2.1",
            Public,
        ),
        ("Order allow,deny\nAllow from all\nDeny from all", Denied),
        ("Order deny,allow\nDeny from all\nAllow from all", Public),
        (
            "Order deny,allow\nDeny from all\nAllow from 10.0.0.0/8",
            Unchecked,
        ),
        ("Order allow,deny\nAllow from example.com", Unchecked),
        ("Order mutual-failure", Denied),
        ("Order deny,allow", Public),
        ("Deny from 192.0.2.1 192.0.2.2", Public),
        ("Deny from env=bad_bot", Public),
        ("Require all granted\nDeny from all", Denied),
        ("Require all denied\nAllow from all", Denied),
    ] {
        check(text, "/x.txt", expected);
    }
}

#[test]
fn unchecked_conditions_are_not_public() {
    for text in [
        "Require ip 10.0.0.0/8",
        "Require local",
        "Require host example.org",
        "Require valid-user",
        "Require user admin",
        "Require expr %{HTTP_HOST} == 'x'",
        "Require env secret",
        "AuthType Basic\nAuthName x\nAuthUserFile /x",
        "AuthType Basic\nRequire valid-user",
    ] {
        check(text, "/x.txt", Unchecked);
    }
    check("AuthType None", "/x.txt", Public);
    check("Require method GET", "/x.txt", Public);
    check("Require method POST", "/x.txt", Unchecked);
    // The login is required by `Require`, not by the lines that name its file.
    let login =
        "AuthType Basic\nAuthUserFile /x\n<Files wp-login.php>\nRequire valid-user\n</Files>";
    check(login, "/wp-login.php", Unchecked);
    check(login, "/index.html", Public);
}

#[test]
fn require_containers_combine_their_lines() {
    for (text, expected) in [
        (
            "<RequireAll>\nRequire all granted\nRequire not ip 192.0.2.1\n</RequireAll>",
            Public,
        ),
        (
            "<RequireAll>\nRequire all granted\nRequire ip 10.0.0.1\n</RequireAll>",
            Unchecked,
        ),
        (
            "<RequireAll>\nRequire all granted\nRequire all denied\n</RequireAll>",
            Denied,
        ),
        (
            "<RequireAny>\nRequire all granted\nRequire ip 10.0.0.1\n</RequireAny>",
            Public,
        ),
        (
            "<RequireAny>\nRequire all denied\nRequire ip 10.0.0.1\n</RequireAny>",
            Unchecked,
        ),
        ("<RequireNone>\nRequire all granted\n</RequireNone>", Denied),
        (
            "<RequireAll>\nRequire all granted\n<RequireNone>\nRequire ip 192.0.2.1\n</RequireNone>\n</RequireAll>",
            Public,
        ),
        ("<RequireAny>\n</RequireAny>", Denied),
        ("Require not ip 192.0.2.1", Denied),
        ("<RequireAll>\nRequire all denied", Denied),
    ] {
        check(text, "/x.txt", expected);
    }
}

#[test]
fn if_module_sections_always_apply() {
    let both = "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n\
        <IfModule !mod_authz_core.c>\nOrder deny,allow\nDeny from all\n</IfModule>";
    check(both, "/x.txt", Denied);
    check(
        "<IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>",
        "/x.txt",
        Denied,
    );
    check(
        "<IfVersion < 2.4>\nDeny from all\n</IfVersion>",
        "/x.txt",
        Denied,
    );
    check(
        "<IfModule a.c>\n<IfModule b.c>\nRequire all denied\n</IfModule>\n</IfModule>",
        "/x.txt",
        Denied,
    );
    check(
        "<IfModule mod_rewrite.c>\nRewriteRule .* - [F]\n</IfModule> # end",
        "/x.txt",
        Denied,
    );
}

#[test]
fn files_sections_apply_to_matching_names() {
    for (open, close, denied, open_names) in [
        ("<Files debug.txt>", "</Files>", "/debug.txt", "/other.txt"),
        ("<Files \"*.tx?\">", "</Files>", "/a.txt", "/a.txtx"),
        (
            "<Files ~ \"\\.(inc|tpl)$\">",
            "</Files>",
            "/a.tpl",
            "/a.tplx",
        ),
        (
            "<FilesMatch \"\\.(inc|tpl)$\">",
            "</FilesMatch>",
            "/a.inc",
            "/inc",
        ),
        (
            "<FilesMatch '\\.inc$'> # mine",
            "</FilesMatch> # end",
            "/a.inc",
            "/inc",
        ),
        (
            "<filesmatch (?i)\\.INC$>",
            "</filesmatch>",
            "/a.inc",
            "/inc",
        ),
        (
            "<FilesMatch \"^(?!index\\.html).*$\">",
            "</FilesMatch>",
            "/a.txt",
            "/index.html",
        ),
        ("<Files [ab].txt>", "</Files>", "/a.txt", "/c.txt"),
        ("<Files [!ab].txt>", "</Files>", "/c.txt", "/a.txt"),
        ("<Files *>", "</Files>", "/c.txt", "/"),
        (
            "<IfModule x>\n<Files a>",
            "</Files>\n</IfModule>",
            "/a",
            "/b",
        ),
    ] {
        for denial in [
            "Require all denied",
            "Deny from all",
            "Order allow,deny\nDeny from all",
        ] {
            let text = format!("{open}\n{denial}\n{close}");
            check(&text, denied, Denied);
            check(&text, open_names, Public);
        }
    }
}

#[test]
fn a_files_section_may_permit_a_name_in_a_denied_directory() {
    let text = "Order deny,allow\nDeny from all\n<FilesMatch \"\\.(css|js)$\">\nAllow from all\n</FilesMatch>";
    check(text, "/a.css", Public);
    check(text, "/a.txt", Denied);
    let text = "Require all denied\n<Files a.css>\nRequire all granted\n</Files>";
    check(text, "/a.css", Public);
    let ajax = "AuthType Basic\nRequire valid-user\n<Files admin-ajax.php>\nOrder allow,deny\nAllow from all\nSatisfy any\n</Files>";
    check(ajax, "/admin-ajax.php", Public);
    check(ajax, "/index.php", Unchecked);
    check(
        "Require all denied\nAllow from all\nSatisfy any",
        "/x",
        Denied,
    );
}

#[test]
fn sections_with_unknown_conditions_may_deny_but_not_permit() {
    check(
        "<If \"%{REMOTE_ADDR} == '10.0.0.1'\">\nRequire all denied\n</If>",
        "/x.txt",
        Denied,
    );
    check(
        "Require all denied\n<If \"true\">\nRequire all granted\n</If>",
        "/x.txt",
        Denied,
    );
    check(
        "<If \"a\">\nDeny from all\n</If>\n<Files x.txt>\nAllow from all\n</Files>",
        "/x.txt",
        Denied,
    );
    check(
        "<FilesMatch \"(?<=a)b\">\nRequire all denied\n</FilesMatch>",
        "/x.txt",
        Denied,
    );
    check(
        "Require all denied\n<FilesMatch \"(?<=a)b\">\nRequire all granted\n</FilesMatch>",
        "/ab",
        Denied,
    );
    check("<Unheard of>\nDeny from all\n</Unheard>", "/x.txt", Denied);
}

#[test]
fn limit_sections_apply_if_they_name_get() {
    for (text, expected) in [
        ("<Limit GET POST>\nDeny from all\n</Limit>", Denied),
        ("<Limit PUT DELETE>\nDeny from all\n</Limit>", Public),
        (
            "<LimitExcept GET POST HEAD>\nDeny from all\n</LimitExcept>",
            Public,
        ),
        (
            "<LimitExcept POST>\nRequire all denied\n</LimitExcept>",
            Denied,
        ),
        (
            "<Limit PUT>\n<RequireAny>\n</RequireAny>\n<Files *>\nDeny from all\n</Files>\n</Limit>",
            Public,
        ),
    ] {
        check(text, "/x.txt", expected);
    }
}

#[test]
fn deeper_directories_override() {
    for (root, deeper, expected) in [
        ("Require all denied", "", Denied),
        ("Require all denied", "Require all granted", Public),
        ("Deny from all", "Allow from all", Public),
        ("Deny from all", "Order allow,deny\nAllow from all", Public),
        ("Deny from all", "Require all granted", Denied),
        ("Require all denied", "Allow from all", Denied),
        ("Require all granted", "Require all denied", Denied),
        ("", "Deny from all", Denied),
        (
            "AuthType Basic\nRequire valid-user",
            "Require all granted",
            Public,
        ),
        (
            "AuthType Basic\nRequire valid-user",
            "Satisfy any\nAllow from all",
            Public,
        ),
        (
            "<Files x.txt>\nRequire all denied\n</Files>",
            "Require all granted",
            Denied,
        ),
        (
            "<Files x.txt>\nRequire all denied\n</Files>",
            "<Files x.txt>\nRequire all granted\n</Files>",
            Public,
        ),
        (
            "<Files x.txt>\nRequire all granted\n</Files>",
            "Require all denied",
            Denied,
        ),
        ("RewriteRule .* - [F]", "RewriteEngine On", Denied),
    ] {
        assert_eq!(
            access_of(&[root, deeper], "/d/x.txt", AccessSubject::File),
            expected,
            "{root}\n--\n{deeper}"
        );
    }
}

#[test]
fn rewrite_rules_may_deny() {
    for (text, path, expected) in [
        ("RewriteRule .* - [F]", "/x.txt", Denied),
        (
            "RewriteEngine On\nRewriteRule \\.log2$ - [F,L]",
            "/x.log2",
            Denied,
        ),
        ("RewriteRule \\.log2$ - [F,L]", "/x.txt", Public),
        ("RewriteRule \\.LOG2$ - [NC,F]", "/x.log2", Denied),
        ("RewriteRule ^d/.*\\.txt$ - [forbidden]", "/d/x.txt", Denied),
        ("RewriteRule ^x - [G]", "/x.txt", Denied),
        ("RewriteRule ^x - [R=404,L]", "/x.txt", Denied),
        ("RewriteRule ^x - [R=301,L]", "/x.txt", Public),
        ("RewriteRule !^open/ - [F]", "/x.txt", Denied),
        ("RewriteRule !^open/ - [F]", "/open/x.txt", Public),
        ("RewriteRule ^(?!open) - [F]", "/open/x.txt", Public),
        ("RewriteRule ^(?!open) - [F]", "/x.txt", Denied),
        ("RewriteRule (?<=a)b - [F]", "/x.txt", Denied),
        ("RewriteEngine Off\nRewriteRule .* - [F]", "/x.txt", Public),
        (
            "RewriteCond %{REMOTE_ADDR} ^192\nRewriteRule .* - [F]",
            "/x.txt",
            Public,
        ),
        (
            "RewriteCond %{REMOTE_ADDR} ^192\nRewriteRule a b\nRewriteRule .* - [F]",
            "/x.txt",
            Denied,
        ),
        (
            "RewriteCond %{REQUEST_FILENAME} -f\nRewriteRule .* - [F]",
            "/x.txt",
            Denied,
        ),
        (
            "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule .* - [F]",
            "/x.txt",
            Public,
        ),
        (
            "RewriteRule ^x\\.txt$ - [L]\nRewriteRule .* - [F]",
            "/x.txt",
            Public,
        ),
        (
            "RewriteRule ^x\\.txt$ - [L]\nRewriteRule .* - [F]",
            "/y.txt",
            Denied,
        ),
        (
            "RewriteRule !^open/ - [S=1]\nRewriteRule ^ - [F]\nRewriteRule ^z - [F]",
            "/x.txt",
            Public,
        ),
        (
            "RewriteRule ^ - [C]\nRewriteRule ^x - [F]",
            "/x.txt",
            Public,
        ),
        ("RewriteRule", "/x.txt", Public),
        ("RedirectMatch 403 \\.txt$", "/x.txt", Denied),
        ("RedirectMatch 404 \"/d/.*\"", "/d/x", Denied),
        ("RedirectMatch 301 \\.txt$ /y", "/x.txt", Public),
        ("Redirect 403 /d", "/d/x.txt", Denied),
        ("Redirect gone /d/", "/dx/x.txt", Public),
    ] {
        check(text, path, expected);
    }
}

#[test]
fn conditions_joined_by_or() {
    let rule = "RewriteRule .* - [F]";
    for (conditions, expected) in [
        (
            "%{REQUEST_FILENAME} -d [OR]\nRewriteCond %{REQUEST_FILENAME} -f",
            Denied,
        ),
        (
            "%{HTTP_COOKIE} a [NC,OR]\nRewriteCond %{REQUEST_FILENAME} -f",
            Denied,
        ),
        (
            "%{HTTP_COOKIE} a\nRewriteCond %{REQUEST_FILENAME} -f",
            Public,
        ),
        (
            "%{REQUEST_FILENAME} -f [OR]\nRewriteCond %{HTTP_COOKIE} a\nRewriteCond %{HTTP_COOKIE} b",
            Public,
        ),
        ("%{REQUEST_FILENAME} -f [OR]", Denied),
        ("%{DOCUMENT_ROOT}/other -f", Public),
    ] {
        check(
            &format!("RewriteCond {conditions}\n{rule}"),
            "/x.txt",
            expected,
        );
    }
}

#[test]
fn a_file_that_a_script_guards_is_not_sent() {
    let guard = "RewriteCond %{REQUEST_FILENAME} -s\nRewriteRule ^(.*)$ /guard.php?file=$1 [QSA,L]";
    check(guard, "/x.pdf", Denied);
    assert_eq!(
        access_of(&[guard], "/index.php", AccessSubject::Script),
        Public
    );
    check(
        "RewriteRule ^(.*)$ https://example.org/x.php [L]",
        "/x.pdf",
        Public,
    );
}

#[test]
fn rules_written_by_wordpress_deny_nothing() {
    let single = "# BEGIN WordPress\n<IfModule mod_rewrite.c>\nRewriteEngine On\n\
        RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteBase /\n\
        RewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n# END WordPress";
    let multisite = "RewriteEngine On\nRewriteRule ^index\\.php$ - [L]\n\
        RewriteRule ^([_0-9a-zA-Z-]+/)?wp-admin$ $1wp-admin/ [R=301,L]\n\
        RewriteCond %{REQUEST_FILENAME} -f [OR]\nRewriteCond %{REQUEST_FILENAME} -d\nRewriteRule ^ - [L]\n\
        RewriteRule ^([_0-9a-zA-Z-]+/)?(wp-(content|admin|includes).*) $2 [L]\n\
        RewriteRule ^([_0-9a-zA-Z-]+/)?(.*\\.php)$ $2 [L]\nRewriteRule . index.php [L]";
    for text in [single, multisite] {
        for path in [
            "/wp-content/uploads/a.jpg",
            "/robots.txt",
            "/wp-includes/js/x.js",
        ] {
            check(text, path, Public);
        }
        for path in ["/index.php", "/wp-login.php", "/wp-admin/admin-ajax.php"] {
            assert_eq!(access_of(&[text], path, AccessSubject::Script), Public);
            assert_eq!(access_of(&[text], path, AccessSubject::Requested), Public);
        }
        assert_eq!(
            access_of(&[text], "/2020/01/post/", AccessSubject::Requested),
            Public
        );
    }
}

#[test]
fn files_beyond_the_limits_deny_access() {
    check(&"<IfModule a>\n".repeat(17), "/x", Denied);
    check(&"RewriteRule a - [F]\n".repeat(513), "/x", Denied);
    check(&"RewriteRule a - [F]\n".repeat(512), "/x", Public);
}

proptest::proptest! {
    #[test]
    fn parsing_never_panics(bytes: Vec<u8>, path in "[a-z./]{0,12}") {
        let chain = [Arc::new(parse::parse(&bytes))];
        if let Some(path) = RelPath::from_relative(path.as_bytes()) {
            evaluate(&chain, &path, b"x", AccessSubject::File);
        }
    }

    #[test]
    fn parsing_lines_of_directives_never_panics(text in "((</?|)(Files|If|RequireAll|Limit|Require|RewriteRule|RewriteCond|Order|Redirect|Deny)[ \"'\\\\*~!\\[\\](,)a-z=0-9>]{0,20}\n){0,20}") {
        let chain = [Arc::new(parse::parse(text.as_bytes()))];
        let path = RelPath::parse(b"/x").unwrap();
        let verdict = evaluate(&chain, &path, b"x", AccessSubject::File);
        // A final directive that denies always applies, whatever text precedes it.
        let closed = [Arc::clone(&chain[0]), Arc::new(parse::parse(b"Deny from all"))];
        let deeper = RelPath::parse(b"/x/y").unwrap();
        proptest::prop_assert_ne!(evaluate(&closed, &deeper, b"y", AccessSubject::File), Public, "{:?}", verdict);
    }
}
