//! Parts of VCL: backends, conditions, and how a statement ends a subroutine.

use crate::directive::Directive;
use crate::draft::Section;
use crate::known;
use crate::units;

/// Converts a backend: `.host = "127.0.0.1"; .port = "8080";`
pub(crate) fn backend(one: &Directive, section: &mut Section) {
    let value = |name: &str| {
        let setting = one.inner().iter().find(|inner| inner.name() == name);
        setting.map(|inner| inner.argument(1))
    };
    let port = value(".port").unwrap_or("80").parse::<u16>().ok();
    let host = value(".host").filter(|host| !host.starts_with('/'));
    let (Some(host), Some(port)) = (host, port) else {
        return one.not_carried("set `upstream` to the address of the server");
    };
    let server = match host.parse::<std::net::Ipv6Addr>() {
        Ok(address) => format!("http://[{address}]:{port}"),
        Err(_) => format!("http://{host}:{port}"),
    };
    one.adds("upstream", [server], section);
    for inner in one.inner() {
        // A rule has no `connect_timeout` of its own.
        let is_rule = section.has("path");
        let option = TIMES.iter().find(|(name, option)| {
            *name == inner.name() && !(is_rule && *option == "connect_timeout")
        });
        match (inner.name(), option, units::duration(inner.argument(1))) {
            (".host" | ".port", ..) => inner.entry.carried("upstream"),
            (_, Some((_, option)), Some(time)) => inner.sets(option, time, section),
            _ => inner.not_carried("set `health_check` and the other options of the upstream"),
        }
    }
}

const TIMES: &[(&str, &str)] = &[
    (".connect_timeout", "connect_timeout"),
    (".first_byte_timeout", "first_byte_timeout"),
    (".between_bytes_timeout", "read_timeout"),
];

/// The condition of an `if`; of another statement its words.
pub(crate) fn condition_of(one: &Directive) -> String {
    let text = text_of(one);
    let condition = text
        .strip_prefix("if (")
        .and_then(|text| text.strip_suffix(')'));
    condition.unwrap_or(&text).to_owned()
}

/// The pattern of a condition that is nothing but `NAME ~ "PATTERN"`.
pub(crate) fn compared<'c>(condition: &'c str, name: &str) -> Option<&'c str> {
    let (left, pattern) = condition.split_once(" ~ ")?;
    let more = [" ~ ", " && ", " || "];
    let is_single = !more.iter().any(|part| pattern.contains(part));
    (left.eq_ignore_ascii_case(name) && is_single).then_some(pattern)
}

/// The words of a statement, in which a quoted one may be before a parenthesis.
pub(crate) fn text_of(one: &Directive) -> String {
    one.words
        .join(" ")
        .replace(" )", ")")
        .replace("return (", "return(")
}

/// The status of `return (synth(403, "..."))`, or of `error 403 "..."` in older files, if it refuses a request.
pub(crate) fn refusal(block: &[Directive]) -> Option<String> {
    let status = block.iter().find_map(|one| {
        let words = one.words.concat();
        let old = || words.strip_prefix("error");
        let rest = words.strip_prefix("return(synth(").or_else(old)?;
        rest.get(..3).map(str::to_owned)
    });
    status.filter(|status| known::is_error_status(status))
}

/// What a statement returns for some requests, apart from purges and refusals: later statements are not about these requests.
pub(crate) fn returns(one: &Directive) -> Vec<String> {
    if one.name() == "if" && refusal(one.inner()).is_some() || text_of(one).contains(" == PURGE") {
        return Vec::new();
    }
    let text = one.words.concat();
    let ends = text.starts_with("return") && !text.starts_with("return(synth");
    // What another subroutine does.
    let is_meant = ends || one.name() == "call";
    let action = is_meant.then_some(text).into_iter();
    action.chain(one.inner().iter().flat_map(returns)).collect()
}
