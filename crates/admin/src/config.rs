//! `GET /config`: the options in effect, set or default, with file and line if a file sets them. Requires the server's token.
//!
//! Without a parameter it returns the sections that all sites share; `?site=HOST` returns those of one site. `POST /reload` with
//! `compare` returns what a reload would change.
//!
//! ```json
//! { "ok": true, "sections": [ { "header": "[cache]", "options": [
//!   { "name": "memory", "value": "\"64MiB\"", "set_at": "/etc/galley/galley.toml:5" },
//!   { "name": "max_object", "value": "\"16MiB\"", "set_at": null } ] } ] }
//! ```

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State as Extract};
use axum::http::StatusCode;
use galley_config::{EffectiveOption, EffectiveSection};
use serde_json::{Value, json};

use super::AdminState;
use super::auth::AdminClient;
use super::query::QueryParams;
use super::target::{JsonReply, JsonResult, server_token, target};

/// Handles `GET /config`.
pub(super) async fn config(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
    RawQuery(query): RawQuery,
) -> JsonResult {
    let sections = sections(&state, &client, query.as_deref())?;
    let sections: Vec<Value> = sections.iter().map(section).collect();
    let value = json!({ "ok": true, "sections": sections });
    Ok((StatusCode::OK, Json(value)))
}

fn sections(
    state: &AdminState,
    client: &AdminClient,
    query: Option<&str>,
) -> Result<Vec<EffectiveSection>, JsonReply> {
    server_token(state, client, "the configuration")?;
    let query = QueryParams::read(query, &["site"])?;
    let Some(host) = query.get("site") else {
        return Ok(state.config.effective());
    };
    let target = target(state, client, Some(host))?;
    let numbers = target.sites.iter();
    let numbers = numbers.filter_map(|site| usize::try_from(site.number).ok());
    Ok(numbers
        .flat_map(|number| state.config.effective_of_site(number))
        .collect())
}

fn section(section: &EffectiveSection) -> Value {
    let options: Vec<Value> = section.options.iter().map(option).collect();
    json!({ "header": section.header, "options": options })
}

fn option(option: &EffectiveOption) -> Value {
    json!({ "name": option.name, "value": option.value, "set_at": option.spot })
}
