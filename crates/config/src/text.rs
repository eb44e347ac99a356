//! The meaning of strings in the file: addresses, hosts, paths, names, words.
//!
//! It depends only on the text and on the folder at which relative paths start, and looks nothing up. An invalid text gives
//! the reason and, where possible, the text that was probably meant.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use galley_policy::access::{AccessSetting, CountryCode};
use galley_policy::headers;
use galley_policy::pattern::PathPattern;
use galley_policy::route::{HostPattern, canonical_host};
use galley_policy::site::NamePattern;
use ipnet::IpNet;

use crate::diagnostic::nearest;
use crate::internal;
use crate::limit;
use crate::listen::{AdminListen, Listen, Proxy};
use crate::log::LogTarget;
use crate::log_field::LogField;
use crate::options::{ValueKind, one_of};
use crate::quantity::{RunInterval, parse_duration, parse_size};
use crate::reader::{Problem, problem};
use crate::upstream::{HttpUpstream, PhpAddress, PhpServer, ServerShare, UpstreamConfig};
use crate::value::ConfigValue;

/// Parses `text` as a value of this kind. `base`: the absolute folder at which relative paths start.
pub(crate) fn parse_text(
    kind: &ValueKind,
    text: &str,
    base: &Path,
) -> Result<ConfigValue, Problem> {
    if text.is_empty() {
        return problem("an empty string", "give a value, or leave the option out");
    }
    if text.contains('\0') {
        return problem("which contains a NUL character", "remove the character");
    }
    match kind {
        ValueKind::SizeOrOff { .. } if text == "off" => Ok(ConfigValue::Number(0)),
        ValueKind::Size { .. } | ValueKind::SizeOrOff { .. } => match parse_size(text) {
            Some(bytes) => bounded_number(kind, bytes),
            None => problem(
                "which is not a size",
                "write a whole number with KiB, MiB or GiB (or kB, MB, GB): `\"32MiB\"`",
            ),
        },
        ValueKind::Time { least, most } => {
            duration(kind, *least..=*most, text).map(ConfigValue::Time)
        }
        ValueKind::TimeOrOff { .. } if text == "off" => Ok(ConfigValue::Pace(RunInterval::Off)),
        ValueKind::TimeOrOff { least, most } => duration(kind, *least..=*most, text)
            .map(|time| ConfigValue::Pace(RunInterval::Every(time))),
        ValueKind::Word(words) => word(words, text),
        ValueKind::Text | ValueKind::Glob => Ok(ConfigValue::Text(text.to_owned())),
        ValueKind::Path => Ok(ConfigValue::Path(base.join(text))),
        ValueKind::Listen => listen(text, base).map(ConfigValue::Listen),
        ValueKind::AdminAddress => admin(text, base).map(ConfigValue::Admin),
        ValueKind::PhpAddress => php(text, base).map(ConfigValue::Php),
        ValueKind::UpstreamUrl => url(text).map(ConfigValue::Url),
        ValueKind::Host => host(text).map(ConfigValue::Host),
        ValueKind::Country => country(text).map(ConfigValue::Country),
        ValueKind::Network => network(text).map(ConfigValue::Network),
        ValueKind::Proxy if text == "unix" => Ok(ConfigValue::Proxy(Proxy::Unix)),
        ValueKind::Proxy => network(text).map(|net| ConfigValue::Proxy(Proxy::Network(net))),
        ValueKind::Name => name(text, false),
        ValueKind::NameOrAll => name(text, true),
        ValueKind::UrlPath => url_path(text),
        ValueKind::Internal => internal::of_text(text),
        ValueKind::Pattern => pattern(text),
        ValueKind::Method => method(text),
        ValueKind::FieldName => match headers::parse_name(text) {
            Some(name) => Ok(ConfigValue::FieldName(name)),
            None => problem(
                "which is not the name of a header field",
                "write the name alone: `X-Powered-By`",
            ),
        },
        ValueKind::FieldLine => match headers::parse_line(text) {
            Some(field) => Ok(ConfigValue::FieldLine(field)),
            None => problem(
                "which is not a header field with its value on one line",
                "write both with a colon between: `X-Frame-Options: SAMEORIGIN`",
            ),
        },
        ValueKind::LogField => LogField::parse(text).map(ConfigValue::LogField),
        ValueKind::AccessLog => access_log(text, base).map(ConfigValue::Log),
        ValueKind::ErrorLog => error_log(text, base).map(ConfigValue::Log),
        ValueKind::FileOrOff => Ok(ConfigValue::File(match text {
            "off" => AccessSetting::Off,
            _ => AccessSetting::Is(base.join(text)),
        })),
        ValueKind::Limit => limit::of_text(text).map(ConfigValue::Limit),
        ValueKind::Flag
        | ValueKind::Count { .. }
        | ValueKind::List(_)
        | ValueKind::Certificates
        | ValueKind::PurgeForward
        | ValueKind::CrawlerLists
        | ValueKind::CrawlerRules
        | ValueKind::UpstreamTls => problem(
            "a string, which this option does not accept",
            "see the reference page",
        ),
    }
}

fn country(text: &str) -> Result<CountryCode, Problem> {
    CountryCode::parse(text).map_or_else(
        || {
            problem(
                "which is not the code of a country",
                "write its two letters in ISO 3166-1: `DE`, `AT`, `US`",
            )
        },
        Ok,
    )
}

fn access_log(text: &str, base: &Path) -> Result<LogTarget, Problem> {
    match text {
        "stdout" => Ok(LogTarget::Stdout),
        "off" => Ok(LogTarget::Off),
        _ => log_path(text, "stdout` or `off", base).map(LogTarget::File),
    }
}

fn error_log(text: &str, base: &Path) -> Result<LogTarget, Problem> {
    match text {
        "stderr" => Ok(LogTarget::Stderr),
        _ => log_path(text, "stderr", base).map(LogTarget::File),
    }
}

pub(crate) fn bounded_number(kind: &ValueKind, number: u64) -> Result<ConfigValue, Problem> {
    let (ValueKind::Count { least, most }
    | ValueKind::Size { least, most }
    | ValueKind::SizeOrOff { least, most }) = *kind
    else {
        return Ok(ConfigValue::Number(number));
    };
    if number < least || number > most {
        return Err(out_of_bounds(kind, number < least));
    }
    Ok(ConfigValue::Number(number))
}

fn out_of_bounds(kind: &ValueKind, too_small: bool) -> Problem {
    let (least, most) = kind.bounds().unwrap_or_default();
    let why = if too_small {
        format!("below the minimum of {least}")
    } else {
        format!("above the maximum of {most}")
    };
    Problem {
        why,
        help: format!("give a value from {least} to {most}"),
    }
}

fn pattern(text: &str) -> Result<ConfigValue, Problem> {
    PathPattern::compile(text)
        .map(ConfigValue::Pattern)
        .or_else(|why| {
            problem(
                format!("which cannot be used as a regular expression: {why}"),
                "see the syntax of Rust's `regex` crate; `(?i)` in front ignores case; look-around and back-references are not supported",
            )
        })
}

/// Parses a duration within the bounds of its kind.
fn duration(
    kind: &ValueKind,
    bounds: RangeInclusive<Duration>,
    text: &str,
) -> Result<Duration, Problem> {
    match parse_duration(text) {
        Some(time) if !bounds.contains(&time) => Err(out_of_bounds(kind, time < *bounds.start())),
        Some(time) => Ok(time),
        None => problem(
            "which is not a duration",
            "write a whole number with its unit, ms, s, m, h or d: `\"30s\"`",
        ),
    }
}

/// Rejects a bare word: it is more often a word with another meaning (`stderr`, `none`) than a file next to the configuration.
fn log_path(text: &str, words: &str, base: &Path) -> Result<PathBuf, Problem> {
    if text.contains('/') {
        return Ok(base.join(text));
    }
    problem(
        "which is neither a path nor an accepted value",
        format!("write `{words}`, or a path with a `/` in it: `./{text}`"),
    )
}

fn address(text: &str) -> Result<SocketAddr, Problem> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return problem(
            "which has no port",
            format!("add one: `{}`", SocketAddr::new(ip, 8080)),
        );
    }
    let port_text = text.strip_prefix("*:").or_else(|| text.strip_prefix(':'));
    if let Ok(port) = port_text.unwrap_or(text).parse::<u16>() {
        return problem(
            "which has no address",
            format!("for all addresses write `0.0.0.0:{port}`"),
        );
    }
    problem(
        "which is not an address with a port",
        "write `0.0.0.0:8080`, or `[::]:8080` for IPv6; names are not looked up",
    )
}

fn listen(text: &str, base: &Path) -> Result<Listen, Problem> {
    if let Some(path) = socket(text, base)? {
        return Ok(Listen::Unix(path));
    }
    if let Some(name) = text.strip_prefix("systemd:") {
        if name.is_empty() || name.contains(':') {
            return problem(
                "which names no socket",
                "write `systemd:` and the socket's `FileDescriptorName`, or its place: `systemd:0`",
            );
        }
        return Ok(Listen::Passed(name.to_owned()));
    }
    address(text).map(Listen::Tcp)
}

fn admin(text: &str, base: &Path) -> Result<AdminListen, Problem> {
    match socket(text, base)? {
        Some(path) => Ok(AdminListen::Unix(path)),
        None if text == "off" => Ok(AdminListen::Off),
        None => address(text).map(AdminListen::Tcp),
    }
}

fn php(text: &str, base: &Path) -> Result<UpstreamConfig, Problem> {
    if text == "managed" {
        return Ok(UpstreamConfig::Managed);
    }
    if let Some(path) = socket(text, base)? {
        return Ok(php_server(PhpAddress::Unix(path)));
    }
    let text = text.strip_prefix("tcp:").unwrap_or(text);
    match host_and_port(text) {
        Some((host, Some(port))) => Ok(php_server(PhpAddress::Tcp(format!("{host}:{port}")))),
        _ => problem(
            "which is neither a socket nor an address with a port",
            "write `unix:/run/php/php-fpm.sock`, `127.0.0.1:9000` or `managed`",
        ),
    }
}

fn php_server(address: PhpAddress) -> UpstreamConfig {
    UpstreamConfig::Php(vec![PhpServer {
        address,
        share: ServerShare::default(),
    }])
}

/// The path after `unix:`, if the text begins so. The kernel's `sun_path` has 108 bytes including the final NUL.
fn socket(text: &str, base: &Path) -> Result<Option<PathBuf>, Problem> {
    if text.starts_with('/') {
        return problem(
            "a path without `unix:`",
            format!("for a socket write `unix:{text}`"),
        );
    }
    let Some(path) = text.strip_prefix("unix:").map(|path| base.join(path)) else {
        return Ok(None);
    };
    if path.as_os_str().len() > 107 {
        return problem(
            "too long for a socket, whose path has at most 107 bytes",
            "put the socket into a folder with a shorter name",
        );
    }
    if path == base {
        return problem(
            "which names no socket",
            "write `unix:` and the path of a socket",
        );
    }
    Ok(Some(path))
}

pub(crate) fn url(text: &str) -> Result<HttpUpstream, Problem> {
    let secure = text.strip_prefix("https://");
    let Some(rest) = secure.or_else(|| text.strip_prefix("http://")) else {
        return problem(
            "which is not a URL",
            format!(
                "write it with its scheme: `http://{}`",
                text.trim_start_matches('/')
            ),
        );
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority != rest {
        return problem(
            "which contains a path, but Galley uses the path of the request",
            format!(
                "write `{}`",
                text.trim_end_matches(rest).to_owned() + authority
            ),
        );
    }
    match host_and_port(authority) {
        Some((host, port)) => Ok(HttpUpstream {
            host,
            port: port.unwrap_or(if secure.is_some() { 443 } else { 80 }),
            tls: secure.is_some(),
            share: ServerShare::default(),
        }),
        None => problem(
            "which has no usable host and port",
            "write `http://127.0.0.1:8080`",
        ),
    }
}

/// Parses `host`, `host:port`, `[v6]`, `[v6]:port`; makes the host canonical. Port 0 is invalid.
fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let digits = port.bytes().all(|byte| byte.is_ascii_digit());
            (
                host,
                Some(port.parse().ok().filter(|number| digits && *number != 0)?),
            )
        }
        _ => (text, None),
    };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || (host.contains(':') && !bracketed) {
        return None;
    }
    Some((canonical_host(host.as_bytes()).ok()?, port))
}

fn host(text: &str) -> Result<HostPattern, Problem> {
    if let Some((_, rest)) = text.split_once("://") {
        let name = rest.split(['/', ':']).next().unwrap_or_default();
        return problem(
            "a URL, not a host",
            format!("write the name alone: `{name}`"),
        );
    }
    if text.contains('*') && text != "*" {
        let rest = text.strip_prefix("*.").unwrap_or("*");
        if rest.contains('*') || rest.is_empty() {
            return problem(
                "whose `*` is not at the beginning",
                "write `*` alone for every host, or `*.` at the beginning for every name below: `*.example.com`",
            );
        }
    }
    if !text.is_ascii() {
        return problem(
            "which contains characters that DNS does not allow",
            "write the name in its `xn--` form",
        );
    }
    if !text.ends_with(']') && text.contains(':') {
        return problem(
            "which has a port",
            "write the host alone; ports belong to `listen`",
        );
    }
    HostPattern::parse(text).or_else(|error| {
        problem(
            format!("which is not a host: {error}"),
            "write a name such as `example.com`, `*.example.com`, or `*` for every host",
        )
    })
}

fn network(text: &str) -> Result<IpNet, Problem> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(ip));
    }
    match text.parse::<IpNet>() {
        Ok(network) if network == network.trunc() => Ok(network),
        Ok(network) => problem(
            "whose address has bits outside the network",
            format!("write `{}`", network.trunc()),
        ),
        Err(_) => problem(
            "which is neither an address nor a network",
            "write `127.0.0.1`, `10.0.0.0/8` or `fd00::/8`",
        ),
    }
}

fn name(text: &str, all: bool) -> Result<ConfigValue, Problem> {
    let stem = text.strip_suffix('*').unwrap_or(text);
    if stem.contains('*') {
        return problem(
            "whose `*` is not at the end",
            "write a whole name, or its beginning and `*`",
        );
    }
    if stem.is_empty() && !all {
        return problem(
            "which would match every name",
            "write the names, or their beginnings and `*`",
        );
    }
    if stem
        .bytes()
        .any(|byte| byte <= b' ' || byte == 0x7f || b"=;,&".contains(&byte))
    {
        return problem(
            "which is not a name",
            "write the name alone, without value, space, `=`, `;`, `,` or `&`",
        );
    }
    Ok(ConfigValue::Name(NamePattern::parse(text)))
}

fn url_path(text: &str) -> Result<ConfigValue, Problem> {
    if !text.starts_with('/') {
        return problem(
            "which does not start with `/`",
            format!("write `/{}`", text.trim_start_matches("./")),
        );
    }
    if text.contains(['?', '#']) {
        return problem(
            "which contains a query, but rules match only the path",
            "write the path alone",
        );
    }
    if text.trim_end_matches('*').contains('*') || text.ends_with("**") {
        return problem(
            "whose `*` is not at the end",
            "write a whole path, or its beginning and one `*`",
        );
    }
    Ok(ConfigValue::Text(text.to_owned()))
}

fn method(text: &str) -> Result<ConfigValue, Problem> {
    if let Some(known) = METHODS.iter().find(|one| one.eq_ignore_ascii_case(text)) {
        return word(&[known], text);
    }
    if ["TRACE", "CONNECT"].contains(&text) {
        return problem("which Galley never serves", "leave it out");
    }
    // A typo would give a rule that never applies. No registered method is this similar to one that Galley knows.
    let is_typo = |known: &&&str| strsim::damerau_levenshtein(text, known) == 1;
    if let Some(known) = METHODS.iter().find(is_typo) {
        return problem(
            "which is not a known method",
            format!("did you mean `{known}`?"),
        );
    }
    // Names are case-sensitive, and all registered ones are in upper case.
    let is_method =
        |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    if (1..=MAX_METHOD_BYTES).contains(&text.len()) && text.bytes().all(is_method) {
        return Ok(ConfigValue::Text(text.to_owned()));
    }
    problem(
        "which is not the name of a request method",
        "write it in upper case: `GET`, `PROPFIND`",
    )
}

fn word(words: &[&str], text: &str) -> Result<ConfigValue, Problem> {
    if words.contains(&text) {
        return Ok(ConfigValue::Text(text.to_owned()));
    }
    let help = match nearest(text, words.iter().copied()) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("write {}", one_of(words)),
    };
    problem("which is not an accepted value", help)
}

/// The methods that Galley knows.
const METHODS: &[&str] = &[
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PURGE", "BAN",
];

/// The maximum that the parser of heads accepts.
const MAX_METHOD_BYTES: usize = 32;
