//! What nginx tells an upstream about a request: parameters of FastCGI, and fields of HTTP.

use crate::directive::ParsedDirective;
use crate::nginx::context::Context;
use crate::nginx::table;
use crate::report::{Report, StatementOutcome};

pub(super) fn fastcgi_param(directive: &ParsedDirective, context: &mut Context<'_>) {
    let value = directive.argument(1);
    let is_tls_only = context.server.plain_ports.is_empty();
    let report = &mut *context.report;
    match directive.argument(0) {
        "HTTPS" if value == "on" && !is_tls_only => report.not_carried(directive.id, TLS_OF_PROXY),
        "HTTPS" if matches!(value, "on" | "$https") => {
            report.not_needed(directive.id, "Galley tells PHP the scheme of the visitor");
        }
        "PHP_VALUE" | "PHP_ADMIN_VALUE" => report.not_carried(directive.id, OF_POOL),
        _ if is_silent(directive) => {
            report.not_needed(directive.id, "Galley sends this parameter itself");
        }
        "GEOIP_COUNTRY_CODE" | "GEOIP_COUNTRY_NAME" => {
            let remedy = "look the country up in PHP, or set `geoip` and `allow_countries` or `deny_countries` if it is about access";
            report.not_carried(directive.id, remedy);
        }
        _ => {
            let remedy = "set the variable in the pool of PHP-FPM (`env[NAME]`)";
            report.not_carried(directive.id, remedy);
        }
    }
}

const OF_POOL: &str =
    "put these values into the pool of PHP-FPM (`php_admin_value[...]`) or php.ini";

/// Why PHP would not know that visitors use TLS.
const TLS_OF_PROXY: &str = "name the proxies in `server.trusted_proxies`: Galley tells PHP that a visitor uses TLS if it has accepted the connection itself, or \
     if such a proxy says so in X-Forwarded-Proto";

/// Parameters that Galley sends, with the values of nginx that mean the same.
const STANDARD_PARAMETERS: &[(&str, &[&str])] = &[
    ("CONTENT_LENGTH", &["$content_length"]),
    ("CONTENT_TYPE", &["$content_type"]),
    ("DOCUMENT_ROOT", &["$document_root", "$realpath_root"]),
    ("DOCUMENT_URI", &["$document_uri"]),
    ("GATEWAY_INTERFACE", &["CGI/1.1"]),
    ("HTTP_HOST", &["$host", "$http_host"]),
    ("HTTP_PROXY", &[""]),
    ("PATH_INFO", &["", "$fastcgi_path_info", "$path_info"]),
    ("QUERY_STRING", &["$query_string", "$args"]),
    ("REDIRECT_STATUS", &["200"]),
    ("REMOTE_ADDR", &["$remote_addr"]),
    ("REMOTE_PORT", &["$remote_port"]),
    ("REMOTE_USER", &["$remote_user"]),
    ("REQUEST_METHOD", &["$request_method"]),
    ("REQUEST_SCHEME", &["$scheme"]),
    ("REQUEST_URI", &["$request_uri"]),
    (
        "SCRIPT_FILENAME",
        &[
            "$document_root$fastcgi_script_name",
            "$document_root/$fastcgi_script_name",
            "$realpath_root$fastcgi_script_name",
            "$request_filename",
        ],
    ),
    ("SCRIPT_NAME", &["$fastcgi_script_name"]),
    ("SERVER_ADDR", &["$server_addr"]),
    ("SERVER_NAME", &["$server_name", "$host", "$http_host"]),
    ("SERVER_PORT", &["$server_port"]),
    ("SERVER_PROTOCOL", &["$server_protocol"]),
];

pub(super) fn proxy_set_header(directive: &ParsedDirective, report: &mut Report) {
    let name = directive.argument(0).to_ascii_lowercase();
    let value = directive.argument(1);
    let is_sent = SENT_FIELDS
        .iter()
        .any(|(known, values)| *known == name && values.contains(&value));
    if is_sent {
        report.not_needed(
            directive.id,
            "Galley sends the client's address, scheme and host itself",
        );
    } else {
        report.not_carried(
            directive.id,
            "Galley sends Host, X-Real-IP and X-Forwarded-For, -Proto, -Host and -Port as visitors' requests have them, and adds no other fields",
        );
    }
}

/// Fields of requests for an upstream that Galley sends, with the values of nginx that mean the same.
const SENT_FIELDS: &[(&str, &[&str])] = &[
    ("host", &["$host", "$http_host", "$host:$server_port"]),
    ("x-real-ip", &["$remote_addr"]),
    (
        "x-forwarded-for",
        &["$proxy_add_x_forwarded_for", "$remote_addr"],
    ),
    ("x-forwarded-proto", &["$scheme"]),
    ("x-forwarded-host", &["$host", "$http_host"]),
    ("x-forwarded-port", &["$server_port"]),
    (
        "connection",
        &["", "upgrade", "Upgrade", "$connection_upgrade"],
    ),
    ("upgrade", &["$http_upgrade"]),
    ("accept-encoding", &[""]),
    ("proxy", &[""]),
];

/// Whether a statement needs nothing, by its name alone.
pub(super) fn is_silent(directive: &ParsedDirective) -> bool {
    let is_standard = || {
        let (name, value) = (directive.argument(0), directive.argument(1));
        STANDARD_PARAMETERS
            .iter()
            .any(|(known, values)| *known == name && values.contains(&value))
    };
    match directive.name() {
        "fastcgi_param" => is_standard(),
        name => matches!(
            table::outcome_of(name),
            Some(StatementOutcome::NotNeeded(_))
        ),
    }
}
