//! Directives of Apache that are not needed, and those without an equivalent.

use crate::report::StatementOutcome;

/// The result for a directive by its name alone, in lower case.
pub(super) fn outcome_of(name: &str) -> Option<StatementOutcome> {
    let is_in = |list: &[&str]| {
        list.iter().any(|known| {
            name == *known
                || known
                    .strip_suffix('*')
                    .is_some_and(|start| name.starts_with(start))
        })
    };
    for (names, why) in NOT_NEEDED {
        if is_in(names) {
            return Some(StatementOutcome::NotNeeded((*why).to_owned()));
        }
    }
    for (names, remedy) in NOT_CARRIED {
        if is_in(names) {
            return Some(StatementOutcome::NotCarried((*remedy).to_owned()));
        }
    }
    None
}

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
            "mutex",
            "pidfile",
            "user",
            "group",
            "defaultruntimedir",
            "scoreboardfile",
            "listen",
            "namevirtualhost",
            "asyncrequestworkerfactor",
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
            "usecanonicalname",
            "usecanonicalphysicalport",
            "keepalive",
            "maxkeepaliverequests",
            "enablesendfile",
            "enablemmap",
            "directoryindex",
            "allowoverride",
            "options",
            "indexoptions",
            "indexignore",
            "addicon*",
            "defaulticon",
            "readmename",
            "headername",
            "adddefaultcharset",
            "addcharset",
            "addtype",
            "addhandler",
            "sethandler",
            "removehandler",
            "removetype",
            "addencoding",
            "addlanguage",
            "languagepriority",
            "forcelanguagepriority",
            "fileetag",
            "accesslog",
            "logformat",
            "loglevel",
            "setenvif",
            "setenvifnocase",
            "browsermatch*",
            "setenv",
            "passenv",
            "unsetenv",
            "typesconfig",
            "mimemagicfile",
            "defaulttype",
            "rewriteengine",
            "rewritebase",
            "rewriteoptions",
            "rewritemap",
            "expiresactive",
            "satisfy",
            "order",
            "authname",
            "authbasicprovider",
            "authgroupfile",
            "define",
            "servername_",
            "contentdigest",
            "acceptpathinfo",
            "allowencodedslashes",
            "protocols",
            "requestreadtimeout",
            "sslrandomseed",
            "sslpassphrasedialog",
            "sslsessioncache*",
            "sslmutex",
            "sslprotocol",
            "sslciphersuite",
            "sslhonorcipherorder",
            "sslcompression",
            "sslsessiontickets",
            "sslusestapling",
            "sslstaplingcache",
            "ssloptions",
            "sslopensslconfcmd",
            "sslengine",
            "sslcacertificatefile",
            "sslcertificatechainfile",
        ],
        "Galley does this by itself, or has a safe default",
    ),
    (
        &[
            "addoutputfilterbytype",
            "deflate*",
            "brotli*",
            "setoutputfilter",
            "addoutputfilter",
        ],
        "Galley compresses once, when it stores a page (`compress`)",
    ),
    (
        &[
            "cache*",
            "proxyrequests",
            "proxypreservehost",
            "proxypassreverse*",
            "proxyvia",
            "proxyiobuffersize",
            "proxyerroroverride",
            "proxyaddheaders",
            "proxyset",
            "proxytimeout",
            "proxybadheader",
            "<proxy",
            "balancermember",
            "proxyfcgi*",
        ],
        "Galley forwards requests by `php` or `upstream` and caches by its WordPress preset",
    ),
    (
        &["ifmodule_", "evasive*", "dos*"],
        "Galley limits clients by itself (`login_limit`, `xmlrpc_limit`, `limit`)",
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
            "sec*",
            "<location",
            "<locationmatch",
            "dav*",
            "svn*",
            "lua*",
            "substitute",
            "requestheader",
            "extfilter*",
            "usertrack*",
            "cookietracking",
            "imagemap*",
            "authldap*",
            "authdb*",
            "sslverifyclient",
            "sslverifydepth",
            "limitrequest*",
        ],
        "Galley has no counterpart; a PHP plugin or another program has to do it",
    ),
];
