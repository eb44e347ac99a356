//! Access control and limits for clients.

use crate::options::ValueKind::{self, Count, Flag, List, Size, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{AS_IN_SITE, MIB, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "connections_per_address", Count { least: 0, most: 10_000_000 }, "Concurrent connections of one IPv4 address or IPv6 /64. Galley resets further ones. 0: no limit.")
        .or("256").unit("connections"),
    row(OptionSection::Server, "limit_exempt", List(&ValueKind::Network), "Networks without `connections_per_address` and the limits of sites, such as an office behind one address.")
        .or(r#"["127.0.0.0/8", "::1"]"#),
    row(OptionSection::Server, "geoip", ValueKind::Path, "The [database of countries](../how-to/access.md#by-country), read again within ten seconds of a change.")
        .example(r#""/var/lib/GeoIP/GeoLite2-Country.mmdb""#),
    row(OptionSection::Server, "min_rate", Size { least: 0, most: MIB }, "The minimum bytes per second of request bodies, over a `body_timeout`, and of responses, over a `write_timeout`. 0: any progress is enough.")
        .or(r#""500B""#),
    row(OptionSection::Site, "allow", List(&ValueKind::Network), "Networks that may request anything. Others get 403. `[]`: all may.")
        .computed("all clients").example(r#"["10.0.0.0/8", "192.0.2.1"]"#),
    row(OptionSection::Site, "deny", List(&ValueKind::Network), "Networks that may request nothing, even if `allow` names them.")
        .or("[]").example(r#"["198.51.100.0/24"]"#),
    row(OptionSection::Site, "allow_countries", List(&ValueKind::Country), "Countries whose clients may request anything. Others get 403, also unknown ones. `[]`: all countries. Needs `server.geoip`.")
        .computed("all countries").example(r#"["DE", "AT", "CH"]"#),
    row(OptionSection::Site, "deny_countries", List(&ValueKind::Country), "Countries whose clients may request nothing.")
        .or("[]").example(r#"["FR"]"#),
    row(OptionSection::Site, "admin_allow", List(&ValueKind::Network), "Networks that may request `wp-admin` and `wp-login.php`. What visitors need there stays open.")
        .computed("all clients").example(r#"["10.0.0.0/8"]"#),
    row(OptionSection::Site, "basic_auth", ValueKind::FileOrOff, "Names and passwords of the permitted users, in the format of `htpasswd`. Requests with a password pass the cache.")
        .computed(r#"`"off"`"#).example(r#""/etc/galley/example.com.htpasswd""#),
    row(OptionSection::Site, "basic_auth_forward", Flag, "Whether PHP gets the name and password of `basic_auth`.")
        .or("false"),
    row(OptionSection::Site, "limit", ValueKind::Limit, "The [limit](../how-to/access.md#rate-limits) of one client: `rate` in the long run, `burst` at once. Further requests get 429. `shared = true`: the nodes of a `[cluster]` count together.")
        .computed(r#"`"off"`"#).example(r#"{ rate = "20/s", burst = 100 }"#),
    row(OptionSection::Site, "login_limit", ValueKind::Limit, "The limit of one client for requests with a body to `wp-login.php`.")
        .computed(r#"`{ rate = "5/m", burst = 15 }`; without the preset none"#).example(r#"{ rate = "5/m", burst = 15 }"#),
    row(OptionSection::Site, "xmlrpc", Word(&["on", "limited", "off"]), "`limited` blocks [two methods](../how-to/access.md#xml-rpc), `off` all of `xmlrpc.php`.")
        .computed(r#"`"limited"`; without the preset `"on"`"#).example(r#""limited""#),
    row(OptionSection::Site, "xmlrpc_limit", ValueKind::Limit, "The limit of one client for `xmlrpc.php`.")
        .computed(r#"`{ rate = "20/m", burst = 60 }`; without the preset none"#).example(r#"{ rate = "20/m", burst = 60 }"#),
    row(OptionSection::Site, "hide_authors", Flag, "Whether Galley blocks [lists of login names](../how-to/access.md#names-of-users).")
        .or("false"),
    row(OptionSection::SiteRule, "allow", List(&ValueKind::Network), AS_IN_SITE)
        .computed("`site.allow`").example(r#"["10.0.0.0/8"]"#),
    row(OptionSection::SiteRule, "deny", List(&ValueKind::Network), AS_IN_SITE)
        .computed("`site.deny`").example(r#"["198.51.100.0/24"]"#),
    row(OptionSection::SiteRule, "allow_countries", List(&ValueKind::Country), AS_IN_SITE)
        .computed("`site.allow_countries`").example(r#"["DE", "AT", "CH"]"#),
    row(OptionSection::SiteRule, "deny_countries", List(&ValueKind::Country), AS_IN_SITE)
        .computed("`site.deny_countries`").example(r#"["FR"]"#),
    row(OptionSection::SiteRule, "deny_status", Count { least: 403, most: 410 }, "The status for clients that the rule denies: 403, 404, 405, or 410 for what is gone.")
        .or("403").unit("status").example("410"),
    row(OptionSection::SiteRule, "basic_auth", ValueKind::FileOrOff, AS_IN_SITE)
        .computed("`site.basic_auth`").example(r#""/etc/galley/example.com.htpasswd""#),
    row(OptionSection::SiteRule, "spellings", Flag, "Whether the access control of this rule covers [other spellings](../how-to/access.md#other-spellings-of-an-address) of its pages, such as `/?p=12`.")
        .or("true"),
    row(OptionSection::SiteRule, "limit", ValueKind::Limit, AS_IN_SITE)
        .computed("`site.limit`").example(r#"{ rate = "10/m", burst = 5 }"#),
];
