//! Directives of Apache with one result wherever they are: those that visitors do not notice, and those without an equivalent. One that is
//! nowhere is reported as not carried.

use crate::directive::ParsedDirective;
use crate::report::StatementOutcome;

/// The result for a directive by its name, and by its arguments where these decide.
pub(super) fn outcome_of(directive: &ParsedDirective) -> Option<StatementOutcome> {
    let name = directive.name();
    let not_needed = |why: &str| Some(StatementOutcome::NotNeeded(why.to_owned()));
    match (name, directive.argument(0)) {
        ("directoryindex", "index.php")
            if directive.arguments().get(1..) == Some(&["index.html".to_owned()]) =>
        {
            return not_needed("Galley looks for index.php, then for index.html");
        }
        ("options", _)
            if directive.arguments().iter().all(|word| {
                HARMLESS_OPTIONS.contains(
                    &word
                        .trim_start_matches(['+', '-'])
                        .to_ascii_lowercase()
                        .as_str(),
                ) || word.starts_with('-')
            }) =>
        {
            return not_needed("Galley lists no folders, and follows links as `link_targets` says");
        }
        ("rewriteengine", on) if on.eq_ignore_ascii_case("on") => {
            return not_needed("the rules are converted one by one");
        }
        ("rewritebase", "/") | ("expiresactive", _) => {
            return not_needed("the directives that depend on it are converted one by one");
        }
        ("setenvif", "Authorization") => return not_needed("Galley passes Authorization on"),
        ("proxypreservehost", on) if on.eq_ignore_ascii_case("on") => {
            return not_needed("Galley forwards the host of the visitor");
        }
        ("proxyrequests", off) if off.eq_ignore_ascii_case("off") => {
            return not_needed("Galley is no forward proxy");
        }
        _ => {}
    }
    let is_in = |list: &[&str]| {
        list.iter().any(|known| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *known,
        })
    };
    if let Some((_, why)) = NOT_NEEDED.iter().find(|(names, _)| is_in(names)) {
        return not_needed(why);
    }
    let (_, remedy) = NOT_CARRIED.iter().find(|(names, _)| is_in(names))?;
    Some(StatementOutcome::NotCarried((*remedy).to_owned()))
}

const HARMLESS_OPTIONS: &[&str] = &["followsymlinks", "symlinksifownermatch", "none"];

pub(super) const WORKERS: &str =
    "Galley has one thread per core, and sizes PHP by the memory of the machine";

const NOT_NEEDED: &[(&[&str], &str)] = &[
    (
        &[
            "startservers",
            "minspare*",
            "maxspare*",
            "maxrequestworkers",
            "maxclients",
            "maxconnectionsperchild",
            "maxrequestsperchild",
            "serverlimit",
            "threadsperchild",
            "threadlimit",
            "threadstacksize",
            "asyncrequestworkerfactor",
            "mutex",
            "pidfile",
            "user",
            "group",
            "defaultruntimedir",
            "scoreboardfile",
            "listen",
            "namevirtualhost",
        ],
        WORKERS,
    ),
    (
        &[
            "loadmodule",
            "addmodule",
            "clearmodulelist",
            "serverroot",
            "serveradmin",
            "serversignature",
            "servertokens",
            "traceenable",
            "hostnamelookups",
            "enablesendfile",
            "enablemmap",
            "allowoverride",
            "loglevel",
            "sslrandomseed",
            "sslsessioncache*",
            "sslmutex",
            "sslprotocol",
            "sslciphersuite",
            "sslhonorcipherorder",
            "sslcompression",
            "sslsessiontickets",
            "sslusestapling",
            "sslstaplingcache",
            "authname",
            "authbasicprovider",
            "typesconfig",
            "keepalive",
            "maxkeepaliverequests",
        ],
        "Galley does this by itself, in its own way: processes, connections, TLS and messages",
    ),
    (
        &["addoutputfilterbytype", "deflate*", "brotli*"],
        "Galley compresses once, when it stores a page (`compress`)",
    ),
];

const NOT_CARRIED: &[(&[&str], &str)] = &[
    (
        &["alias", "aliasmatch", "scriptalias*"],
        "Galley has one `root` per site: link the folder into it, or make it a site of its own",
    ),
    (
        &["php_value", "php_flag", "php_admin_value", "php_admin_flag"],
        "put these values into a `.user.ini`, php.ini or the pool of PHP-FPM",
    ),
    (
        &[
            "setenvif*",
            "browsermatch*",
            "setenv",
            "passenv",
            "unsetenv",
            "requestheader",
        ],
        "Galley sets no variables: the pool of PHP-FPM can (`env[NAME]`), and proxies are named in `server.trusted_proxies`",
    ),
    (
        &["expiresdefault"],
        "a lifetime for all pages and files: write rules with `pattern` and `set_headers`",
    ),
    (
        &["directoryindex"],
        "Galley looks for index.php before index.html, and for no other names",
    ),
    (
        &[
            "adddefaultcharset",
            "addcharset",
            "addtype",
            "addhandler",
            "sethandler",
            "removehandler",
            "removetype",
            "addencoding",
            "forcetype",
            "defaulttype",
        ],
        "Galley sends the usual media types with `charset=utf-8` for text, and runs scripts that end in .php only",
    ),
    (
        &[
            "options",
            "indexoptions",
            "indexignore",
            "addicon*",
            "defaulticon",
            "readmename",
            "headername",
        ],
        "Galley lists no folders, runs no CGI, and has no server-side includes",
    ),
    (
        &[
            "rewritebase",
            "rewritemap",
            "rewriteoptions",
            "rewriteengine",
        ],
        "Galley rewrites no paths: write rules with `redirect`",
    ),
    (
        &["proxy*", "balancermember", "<proxy*", "cache*"],
        "see the options of `upstream`, and those of the cache",
    ),
    (
        &["logformat", "accesslog"],
        "`format` and `fields` in `[log]` choose the columns",
    ),
    (
        &[
            "sslcacertificatefile",
            "sslcertificatechainfile",
            "sslopensslconfcmd",
            "ssloptions",
        ],
        "Galley reads the chain from the file in `tls`, and has no further options of OpenSSL",
    ),
];
