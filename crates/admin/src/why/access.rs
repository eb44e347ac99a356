//! Access control in an explanation: the option that denies a request, or the credentials that it would need.

use std::fmt::Display;

use galley_policy::access::{
    self, AccessClient, AccessConditions, BodyCheck, Bucket, By, DenialReason,
};
use galley_policy::decide::Decision;
use serde_json::{Value, json};

use super::advice::{Advice, ReasonText};
use super::reasons;
use galley_request::Exchange;

fn client(exchange: &Exchange<'_>) -> AccessClient {
    exchange.site.access.client(exchange.client.ip())
}

fn judged<'e>(exchange: &'e Exchange<'_>) -> Result<AccessConditions<'e>, DenialReason> {
    access::judge(&exchange.site.core.policy, &exchange.info, client(exchange))
}

/// The status that the rule of a denial names.
pub(super) fn own_status(decision: &Decision, exchange: &Exchange<'_>) -> Option<u16> {
    let denial = judged(exchange).err()?;
    let is_meant = matches!(decision, Decision::Refuse(why) if *why == denial.why());
    denial
        .status(&exchange.site.core.policy)
        .filter(|_| is_meant)
}

/// The reason why a request is denied, with advice; `None` if it is not.
pub(super) fn advice(exchange: &Exchange<'_>) -> Option<Advice> {
    let client = exchange.client.ip().to_canonical();
    let network = |option: &'static str, by: By, reasons: BySite| {
        reasons.advice(by, exchange, &[("option", &option), ("client", &client)])
    };
    let country = |option: &'static str, by: By, reasons: BySite| {
        let country = self::client(exchange).country;
        let country = country.map_or("unknown".to_owned(), |country| country.to_string());
        let params: [(_, &dyn Display); 3] = [
            ("option", &option),
            ("client", &client),
            ("country", &country),
        ];
        reasons.advice(by, exchange, &params)
    };
    match judged(exchange) {
        Err(DenialReason::Denied(by)) => Some(network("deny", by, NAMED)),
        Err(DenialReason::NotAllowed(by)) => Some(network("allow", by, MISSING)),
        Err(DenialReason::CountryDenied(by)) => Some(country("deny_countries", by, COUNTRY)),
        Err(DenialReason::CountryNotAllowed(by)) => {
            Some(country("allow_countries", by, NO_COUNTRY))
        }
        Err(barred) => Some(super::words::refused(barred.why())),
        Ok(conditions) => {
            let by = *conditions.passwords.first()?;
            Some(PASSWORD.advice(by, exchange, &[]))
        }
    }
}

/// The reasons for an option of the site, and for one of a rule.
#[derive(Clone, Copy)]
struct BySite(&'static ReasonText, &'static ReasonText);

const NAMED: BySite = BySite(reasons::BARRED_NAMED, reasons::BARRED_NAMED_RULE);
const MISSING: BySite = BySite(reasons::BARRED_MISSING, reasons::BARRED_MISSING_RULE);
const COUNTRY: BySite = BySite(reasons::BARRED_COUNTRY, reasons::BARRED_COUNTRY_RULE);
const NO_COUNTRY: BySite = BySite(reasons::BARRED_NO_COUNTRY, reasons::BARRED_NO_COUNTRY_RULE);
const PASSWORD: BySite = BySite(reasons::BARRED_PASSWORD, reasons::BARRED_PASSWORD_RULE);

impl BySite {
    fn advice(
        self,
        by: By,
        exchange: &Exchange<'_>,
        params: &[(&'static str, &dyn Display)],
    ) -> Advice {
        let By::Rule(index) = by else {
            return self.0.with(params);
        };
        let number = index + 1;
        let path = rule_path(index, exchange);
        let mut params = params.to_vec();
        params.extend([("number", &number as &dyn Display), ("path", &path)]);
        self.1.with(&params)
    }
}

/// The result of access control in JSON: the required credentials, or the option that denies the request.
pub(super) fn value(exchange: &Exchange<'_>) -> Value {
    let country = client(exchange).country;
    let country = country.map(|country| country.to_string());
    let client = exchange.client.ip().to_canonical().to_string();
    let conditions = match judged(exchange) {
        Ok(conditions) => conditions,
        Err(barred) => {
            let by = match barred {
                DenialReason::Denied(by)
                | DenialReason::NotAllowed(by)
                | DenialReason::CountryDenied(by)
                | DenialReason::CountryNotAllowed(by) => option_owner(by, exchange),
                DenialReason::NotAdmin
                | DenialReason::XmlRpc
                | DenialReason::Authors
                | DenialReason::Crawler => "the site".to_owned(),
            };
            return json!({
                "client": client,
                "country": country,
                "barred": { "why": barred.why().word(), "option": option(barred), "by": by },
                "limits": [], "password": null, "body": null,
            });
        }
    };
    let limits = conditions.limits.iter().map(|(bucket, limit)| {
        let (option, by) = match *bucket {
            Bucket::Of(by) => ("limit", option_owner(by, exchange)),
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
        "password": conditions.passwords.first().map(|by| option_owner(*by, exchange)),
        "body": conditions.body.map(|check| match check {
            BodyCheck::XmlRpc => "its XML-RPC method",
            BodyCheck::VisitorsForm => "that it is the form of a protected post",
            BodyCheck::Authors => "that it requests no author",
        }),
    })
}

const fn option(barred: DenialReason) -> &'static str {
    match barred {
        DenialReason::Denied(_) => "deny",
        DenialReason::NotAllowed(_) => "allow",
        DenialReason::CountryDenied(_) => "deny_countries",
        DenialReason::CountryNotAllowed(_) => "allow_countries",
        DenialReason::NotAdmin => "admin_allow",
        DenialReason::XmlRpc => "xmlrpc",
        DenialReason::Authors => "hide_authors",
        DenialReason::Crawler => "crawler_rules",
    }
}

fn option_owner(by: By, exchange: &Exchange<'_>) -> String {
    let By::Rule(index) = by else {
        return "the site".to_owned();
    };
    let path = rule_path(index, exchange);
    format!("rule number {}, for `{path}`", index + 1)
}

fn rule_path<'e>(index: usize, exchange: &'e Exchange<'_>) -> &'e str {
    let rules = &exchange.site.core.policy.rules;
    rules.get(index).map_or("", |rule| rule.path.as_str())
}
