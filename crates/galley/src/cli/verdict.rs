//! The first lines of `galley status`: whether visitors are served, and what is wrong.

use std::io::IsTerminal;

use serde_json::Value;

use galley_operator::figures::for_age;
use galley_operator::show::text;

/// Whether the server reports no problem. A server of a version without a verdict reports none.
pub(super) fn is_fine(status: &Value) -> bool {
    matches!(status["health"]["state"].as_str(), Some("ok") | None)
}

/// Whether visitors are served, perhaps with problems.
pub(super) fn is_serving(status: &Value) -> bool {
    is_fine(status) || status["health"]["state"] == "degraded"
}

/// The verdict, then each problem with what to do. On a terminal, the state is in color.
pub(super) fn lines(status: &Value) -> Vec<String> {
    let health = &status["health"];
    let Some(state) = health["state"].as_str() else {
        return Vec::new();
    };
    let is_colored = std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let first = format!(
        "{}: {}",
        colored(state, is_colored),
        text(&health["summary"])
    );
    let problems = health["problems"].as_array().into_iter().flatten();
    std::iter::once(first)
        .chain(problems.flat_map(problem))
        .collect()
}

fn problem(problem: &Value) -> [String; 2] {
    let site = problem["site"].as_str();
    let site = site.map_or_else(String::new, |site| format!("{site}: "));
    let since = for_age(problem["since_s"].as_u64());
    [
        format!("  {site}{}{since}", text(&problem["problem"])),
        format!("    what to do: {}", text(&problem["remedy"])),
    ]
}

/// The word in the color of its meaning (ECMA-48 §8.3.117): green, yellow or red, and bold.
fn colored(state: &str, is_colored: bool) -> String {
    let color = match state {
        "ok" => 32,
        "degraded" => 33,
        _ => 31,
    };
    if is_colored {
        format!("\x1b[1;{color}m{state}\x1b[0m")
    } else {
        state.to_owned()
    }
}

/// The lines about upstreams that have fewer slots than the maximum.
pub(super) fn slots(status: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for site in status["sites"].as_array().into_iter().flatten() {
        for upstream in site["upstreams"].as_array().into_iter().flatten() {
            let (slots, most) = (&upstream["slots"], &upstream["slots_max"]);
            if slots.as_u64() < most.as_u64() {
                lines.push(format!(
                    "{}: currently {slots} of {most} slots, because more do not increase throughput, or it has just recovered; {} waiting",
                    text(&site["name"]),
                    upstream["waiting"]
                ));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn problems_follow_the_verdict_with_their_age_and_remedy() {
        let status = json!({ "health": {
            "state": "failing", "summary": "Visitors get errors: No response from unix:/a",
            "problems": [{ "site": "a.test", "problem": "No response from unix:/a", "since_s": 604_774, "remedy": "start PHP" }],
        } });
        let wanted = [
            "failing: Visitors get errors: No response from unix:/a",
            "  a.test: No response from unix:/a (for 6 days 23 h)",
            "    what to do: start PHP",
        ];
        assert_eq!(lines(&status), wanted);
        assert!(!is_fine(&status) && !is_serving(&status));
        let degraded = json!({ "health": { "state": "degraded" } });
        assert!(!is_fine(&degraded) && is_serving(&degraded));
        assert_eq!(colored("ok", true), "\x1b[1;32mok\x1b[0m");
        assert!(is_fine(&json!({})) && lines(&json!({})).is_empty());
    }
}
