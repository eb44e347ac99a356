//! A member of `purge_forward`: `{ cloudflare = "ZONE", token_file = "...", by = "tag" }`.

use toml::de::{DeTable, DeValue};

use crate::forward::{ForwardKind, PurgeForward};
use crate::reader::{Problem, ValueReader, problem};
use crate::text::url;
use crate::upstream::HttpUpstream;
use crate::value::ConfigValue;

/// The cache that a table defines.
pub(crate) fn of_table(
    reader: &ValueReader<'_>,
    table: &DeTable<'_>,
) -> Result<ConfigValue, Problem> {
    let (mut kind, mut api, mut token_file, mut by_tag) = (None, None, None, false);
    for (key, value) in table {
        let key = key.get_ref().as_ref();
        let DeValue::String(text) = value.get_ref() else {
            return problem(format!("whose `{key}` is not a string"), FORM);
        };
        match (key, text.as_ref()) {
            ("token_file", path) => token_file = Some(reader.base.join(path)),
            ("by", "tag") => by_tag = true,
            ("by", "url") => by_tag = false,
            ("api", address) => api = Some(url(address)?),
            (name, value) => {
                if kind.replace(kind_and_api(name, value)?).is_some() {
                    return problem("which names two caches", FORM);
                }
            }
        }
    }
    let Some((kind, server)) = kind else {
        return problem("which names no cache", FORM);
    };
    let is_method = matches!(kind, ForwardKind::Purge | ForwardKind::Ban);
    if !is_method && token_file.is_none() {
        let help = "add `token_file = \"/etc/galley/cdn.token\"`";
        return problem("which has no `token_file`", help);
    }
    let is_service = !is_method && kind != ForwardKind::Galley;
    if !is_service && api.is_some() {
        return problem("which has an `api`, but no service", FORM);
    }
    Ok(ConfigValue::Forward(PurgeForward {
        server: api.unwrap_or(server),
        kind,
        token_file,
        by_tag,
    }))
}

/// The kind of a cache and the address of its API.
fn kind_and_api(name: &str, value: &str) -> Result<(ForwardKind, HttpUpstream), Problem> {
    let id = value.to_owned();
    let (kind, api) = match name {
        "purge" => return Ok((ForwardKind::Purge, url(value)?)),
        "ban" => return Ok((ForwardKind::Ban, url(value)?)),
        "galley" => return Ok((ForwardKind::Galley, url(value)?)),
        "cloudflare" => (ForwardKind::Cloudflare(id), "https://api.cloudflare.com"),
        "fastly" => (ForwardKind::Fastly(id), "https://api.fastly.com"),
        "bunny" => (ForwardKind::Bunny(id), "https://api.bunny.net"),
        _ => return problem(format!("which has an unknown key or value `{name}`"), FORM),
    };
    // The id becomes part of a path.
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return problem(format!("whose `{name}` is not an id"), FORM);
    }
    Ok((kind, url(api)?))
}

const FORM: &str = "write `{ cloudflare = \"ZONE\", token_file = \"...\", by = \"tag\" }`, or `fastly`, `bunny`, `purge`, `ban` or `galley` in place of `cloudflare`";
