//! Access control in an explanation: the option that denies a request, or the credentials that it would need.

use galley_policy::access::{self, AccessClient, Barred, BodyCheck, Bucket, By, Demands};
use serde_json::{Value, json};

use super::words::Advice;
use crate::request::Exchange;

fn client(exchange: &Exchange<'_>) -> AccessClient {
    exchange.site.access.client(exchange.client.ip())
}

fn judged<'e>(exchange: &'e Exchange<'_>) -> Result<Demands<'e>, Barred> {
    access::judge(&exchange.site.core.rules, &exchange.info, client(exchange))
}

/// Why a request is denied, and what to do; `None` if it is not.
pub(super) fn advice(exchange: &Exchange<'_>) -> Option<Advice> {
    let client = exchange.client.ip().to_canonical();
    let network = |option: &str, by: By, verb: &str| {
        Advice::new(
            format!("`{option}` of {} {verb} {client}", said_by(by, exchange)),
            "to let this address in, change that list; lists of a rule replace those of the site",
        )
    };
    let country = |option: &str, by: By, verb: &str| {
        let country = self::client(exchange).country;
        let country = country.map_or("unknown".to_owned(), |country| country.to_string());
        Advice::new(
            format!(
                "`{option}` of {} {verb} the country of {client}, which is {country}",
                said_by(by, exchange)
            ),
            "to let this country in, change that list; lists of a rule replace those of the site",
        )
    };
    match judged(exchange) {
        Err(Barred::Denied(by)) => Some(network("deny", by, "names")),
        Err(Barred::NotAllowed(by)) => Some(network("allow", by, "does not name")),
        Err(Barred::CountryDenied(by)) => Some(country("deny_countries", by, "names")),
        Err(Barred::CountryNotAllowed(by)) => Some(country("allow_countries", by, "does not name")),
        Err(barred) => Some(super::words::refused(barred.why())),
        Ok(demands) => {
            let by = *demands.passwords.first()?;
            Some(Advice::fine(format!(
                "`basic_auth` of {} requires a user name and a password, and the request has none",
                said_by(by, exchange)
            )))
        }
    }
}

/// What a request must provide, or what it is denied by.
pub(super) fn value(exchange: &Exchange<'_>) -> Value {
    let country = client(exchange).country;
    let country = country.map(|country| country.to_string());
    let client = exchange.client.ip().to_canonical().to_string();
    let demands = match judged(exchange) {
        Ok(demands) => demands,
        Err(barred) => {
            let by = match barred {
                Barred::Denied(by)
                | Barred::NotAllowed(by)
                | Barred::CountryDenied(by)
                | Barred::CountryNotAllowed(by) => said_by(by, exchange),
                Barred::NotAdmin | Barred::XmlRpc | Barred::Authors => "the site".to_owned(),
            };
            return json!({
                "client": client,
                "country": country,
                "barred": { "why": barred.why().word(), "option": option(barred), "by": by },
                "limits": [], "password": null, "body": null,
            });
        }
    };
    let limits = demands.limits.iter().map(|(bucket, limit)| {
        let (option, by) = match *bucket {
            Bucket::Of(by) => ("limit", said_by(by, exchange)),
            Bucket::Login => ("login_limit", "the site".to_owned()),
            Bucket::XmlRpc => ("xmlrpc_limit", "the site".to_owned()),
            Bucket::Password => ("basic_auth", "the site".to_owned()),
            Bucket::Dashboard => ("dashboard_auth", "the site".to_owned()),
        };
        json!({ "option": option, "by": by, "rate": limit.rate(), "burst": limit.burst() })
    });
    json!({
        "client": client,
        "country": country,
        "barred": null,
        "limits": limits.collect::<Vec<_>>(),
        "password": demands.passwords.first().map(|by| said_by(*by, exchange)),
        "body": demands.body.map(|check| match check {
            BodyCheck::XmlRpc => "its XML-RPC method",
            BodyCheck::VisitorsForm => "that it is the form of a protected post",
            BodyCheck::Authors => "that it requests no author",
        }),
    })
}

const fn option(barred: Barred) -> &'static str {
    match barred {
        Barred::Denied(_) => "deny",
        Barred::NotAllowed(_) => "allow",
        Barred::CountryDenied(_) => "deny_countries",
        Barred::CountryNotAllowed(_) => "allow_countries",
        Barred::NotAdmin => "admin_allow",
        Barred::XmlRpc => "xmlrpc",
        Barred::Authors => "hide_authors",
    }
}

fn said_by(by: By, exchange: &Exchange<'_>) -> String {
    let By::Rule(index) = by else {
        return "the site".to_owned();
    };
    let rules = &exchange.site.core.rules.rules;
    let path = rules.get(index).map_or("", |rule| rule.path.as_str());
    format!("rule number {}, for `{path}`", index + 1)
}
