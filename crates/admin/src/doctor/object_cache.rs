//! Checks the object cache of WordPress: whether one is in use, and what works against that of Galley.

use serde_json::Value;

use super::{DoctorFinding, Severity};

/// `wordpress`: the report of WordPress.
pub(super) fn finding(wordpress: &Value) -> DoctorFinding {
    const CHECK: &str = "object cache";
    match wordpress["object_cache"].as_bool() {
        None => DoctorFinding::unknown(CHECK, "WordPress does not report it"),
        Some(true) => DoctorFinding::fine(CHECK, "wp-content/object-cache.php is in use"),
        Some(false) => DoctorFinding::fine(
            CHECK,
            "none: `galley plugin install DIR --object-cache` saves queries of pages that are not stored",
        ),
    }
}

/// What works against Galley's own object cache, and how well it works; for each site that uses it. `status`: that of the running server.
pub fn object_findings(status: &Result<Value, String>) -> Vec<DoctorFinding> {
    const CHECK: &str = "object cache";
    let sites = status.as_ref().ok().and_then(|all| all["sites"].as_array());
    let used = sites.into_iter().flatten().filter(|site| {
        let requests = site["object_cache"]["requests"].as_u64();
        requests.is_some_and(|requests| requests > 0)
    });
    let findings = used.flat_map(|site| {
        let (of, name) = (&site["object_cache"], site["name"].as_str().unwrap_or_default());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let problems = of["problems"].as_array().into_iter().flatten();
        let mut findings: Vec<_> = problems
            .map(|one| {
                let seen = format!("{name}: {}", text(&one["problem"]));
                let why = "for pages that are not stored, PHP reads from the database what it has read before";
                DoctorFinding {
                    since_s: one["since_s"].as_u64(),
                    ..DoctorFinding::bad(Severity::Notice, CHECK, seen, why, text(&one["remedy"]))
                }
            })
            .collect();
        if findings.is_empty() {
            let percent = of["hit_ratio"].as_f64().unwrap_or_default() * 100.0;
            let seen = format!("{name}: {percent:.0} % of the values that PHP reads are there");
            findings.push(DoctorFinding::fine(CHECK, seen));
        }
        findings
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_works_against_the_own_object_cache_is_a_notice() {
        let site = |of: Value| json!({ "name": "a.test", "object_cache": of });
        let problem = json!({ "problem": "emptied", "since_s": 60, "remedy": "stop it" });
        let status = json!({ "sites": [
            site(json!({ "requests": 7, "hit_ratio": 0.987, "problems": [] })),
            site(json!({ "requests": 7, "problems": [problem] })),
            site(json!({ "requests": 0, "problems": [] })), site(Value::Null),
        ]});
        let found = object_findings(&Ok(status));
        let seen = found
            .iter()
            .map(|one| (one.level, &*one.seen, &*one.remedy));
        let expected = [
            (
                Severity::Fine,
                "a.test: 99 % of the values that PHP reads are there",
                "",
            ),
            (Severity::Notice, "a.test: emptied", "stop it"),
        ];
        assert!(seen.eq(expected), "{found:?}");
        assert_eq!(found[1].since_s, Some(60));
        assert!(object_findings(&Err("no server".to_owned())).is_empty());
    }

    #[test]
    fn no_object_cache_is_fine() {
        for (used, level, word) in [
            (json!(true), Severity::Fine, "in use"),
            (json!(false), Severity::Fine, "--object-cache"),
            (json!(null), Severity::Unknown, "does not report"),
        ] {
            let found = finding(&json!({ "object_cache": used }));
            assert!(
                found.level == level && found.seen.contains(word),
                "{found:?}"
            );
        }
    }
}
