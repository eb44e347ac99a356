//! Prints an option that a reload changes, with the value in effect and the value in the file.

use serde_json::{Value, json};

/// `[cache] memory: "64MiB" -> "128MiB"`. Secrets are masked by the server.
pub fn line(option: &Value) -> String {
    let text = |name: &str| option[name].as_str().unwrap_or_default();
    let side = |name: &str| {
        let side = &option[name];
        match (side["value"].as_str(), side["set_at"].is_null()) {
            (None, _) => "none".to_owned(),
            (Some(value), true) => format!("{value} (default)"),
            (Some(value), false) => value.to_owned(),
        }
    };
    let site = option["site"].as_str();
    let site = site.map_or_else(String::new, |site| format!(" of site `{site}`"));
    let hidden = if option["hidden"] == json!(true) {
        " (they differ in what is not shown)"
    } else {
        ""
    };
    format!(
        "{} {}{site}: {} -> {}{hidden}",
        text("section"),
        text("name"),
        side("before"),
        side("after")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_contains_both_values() {
        let set = |value: &str| json!({ "value": value, "set_at": "/etc/galley/galley.toml:3" });
        let default = json!({ "value": "16", "set_at": null });
        let mut option = json!({
            "section": "[[site]]", "site": "a.test", "name": "queue", "before": default, "after": set("3"), "hidden": false,
        });
        assert_eq!(
            line(&option),
            "[[site]] queue of site `a.test`: 16 (default) -> 3"
        );
        option["site"] = Value::Null;
        option["after"] = Value::Null;
        assert_eq!(line(&option), "[[site]] queue: 16 (default) -> none");
        option["before"] = set("\"redis://***@h\"");
        option["after"] = set("\"redis://***@h\"");
        option["hidden"] = json!(true);
        assert!(line(&option).ends_with(" (they differ in what is not shown)"));
    }
}
