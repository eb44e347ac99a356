//! Who may come in, and how much of the server one client may take.

use crate::options::ValueKind::{self, Count, Flag, List, Size, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::{MIB, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "connections_per_address", Count { least: 0, most: 10_000_000 }, "Connections of one client at one time: of an IPv4 address, or of the /64 of an IPv6 one. One more is reset. 0: any number.")
        .or("256").unit("connections"),
    row(OptionSection::Server, "limit_exempt", List(&ValueKind::Network), "Networks for which `connections_per_address` and the sites' limits do not count: what shares one address, such as a proxy or an office.")
        .or(r#"["127.0.0.0/8", "::1"]"#),
    row(OptionSection::Server, "min_rate", Size { least: 0, most: MIB }, "The least bytes a second that a body must bring in each `body_timeout`, and that a client must take of its answer in each `write_timeout`. Who is slower is reset. 0: silence alone ends a connection.")
        .or(r#""500B""#),
    row(OptionSection::Site, "allow", List(&ValueKind::Network), "Who may ask for anything of the site; nobody else may. `[]`: everybody.")
        .computed("everybody").example(r#"["10.0.0.0/8", "192.0.2.1"]"#),
    row(OptionSection::Site, "deny", List(&ValueKind::Network), "Who may not, also where `allow` names him.")
        .or("[]").example(r#"["198.51.100.0/24"]"#),
    row(OptionSection::Site, "admin_allow", List(&ValueKind::Network), "Who may administer: ask for `wp-admin` and `wp-login.php`. What visitors need of them stays open to everybody.")
        .computed("everybody").example(r#"["10.0.0.0/8"]"#),
    row(OptionSection::Site, "basic_auth", ValueKind::FileOrOff, "A file with the names and passwords of the permitted users, in the format of `htpasswd`. Requests with a password pass the cache.")
        .computed(r#"`"off"`"#).example(r#""/etc/galley/example.com.htpasswd""#),
    row(OptionSection::Site, "basic_auth_forward", Flag, "Whether PHP gets the name and password that a request was let in with.")
        .or("false"),
    row(OptionSection::Site, "limit", ValueKind::Limit, "How often one client may ask for anything of the site: `rate` in the long run, `burst` at once. One more gets 429.")
        .computed(r#"`"off"`"#).example(r#"{ rate = "20/s", burst = 100 }"#),
    row(OptionSection::Site, "login_limit", ValueKind::Limit, "How often one client may send something to `wp-login.php`.")
        .computed(r#"`{ rate = "5/m", burst = 15 }`; without the preset none"#).example(r#"{ rate = "5/m", burst = 15 }"#),
    row(OptionSection::Site, "xmlrpc", Word(&["on", "limited", "off"]), "What of XML-RPC there is. `limited`: not `system.multicall`, which tries many passwords at once, and not `pingback.ping`.")
        .computed(r#"`"limited"`; without the preset `"on"`"#).example(r#""limited""#),
    row(OptionSection::Site, "xmlrpc_limit", ValueKind::Limit, "How often one client may ask `xmlrpc.php`.")
        .computed(r#"`{ rate = "20/m", burst = 60 }`; without the preset none"#).example(r#"{ rate = "20/m", burst = 60 }"#),
    row(OptionSection::Site, "hide_authors", Flag, "Whether requests that list login names are refused: `?author=1`, the sitemap of users, and users, embedded authors and oEmbed in the REST API.")
        .or("false"),
    row(OptionSection::SiteRule, "allow", List(&ValueKind::Network), "Who may ask for these paths, in place of the site's. `[]`: everybody.")
        .computed("`site.allow`").example(r#"["10.0.0.0/8"]"#),
    row(OptionSection::SiteRule, "deny", List(&ValueKind::Network), "Who may not, in place of the site's.")
        .computed("`site.deny`").example(r#"["198.51.100.0/24"]"#),
    row(OptionSection::SiteRule, "basic_auth", ValueKind::FileOrOff, "Whose name and password are wanted for these paths, in place of the site's.")
        .computed("`site.basic_auth`").example(r#""/etc/galley/example.com.htpasswd""#),
    row(OptionSection::SiteRule, "limit", ValueKind::Limit, "How often one client may ask for these paths, in place of the site's.")
        .computed("`site.limit`").example(r#"{ rate = "10/m", burst = 5 }"#),
];
