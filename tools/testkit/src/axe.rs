//! Checks the accessibility of a page with axe in Chromium.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    Tab,
    error::{Context, TestkitError},
};

impl Tab<'_> {
    /// Loads axe into the current page; the next page needs it again.
    ///
    /// # Errors
    /// [`TestkitError::Io`] with the command that installs axe, if it is missing.
    pub fn load_axe(&mut self) -> Result<(), TestkitError> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let file = root.join("target/axe/node_modules/axe-core/axe.min.js");
        let axe = fs::read_to_string(&file).context(format_args!(
            "read {}: run `make target/axe/node_modules/.package-lock.json`",
            file.display()
        ))?;
        self.evaluate(&axe).map(drop)
    }

    /// Checks the elements that match these selectors and their descendants; returns a line for each violated rule. The selector
    /// `html` checks the whole page and includes the rules for pages.
    ///
    /// # Errors
    /// [`TestkitError::Malformed`] if no element matches a selector, so that a missing element does not pass.
    pub fn violations(&mut self, selectors: &[&str]) -> Result<Vec<String>, TestkitError> {
        let missing = self.evaluate(&format!(
            "{}.filter((selector) => !document.querySelector(selector))",
            json!(selectors)
        ))?;
        if missing != json!([]) {
            return Err(TestkitError::Malformed(format!(
                "not in the page: {missing}"
            )));
        }
        let include: Vec<[&str; 1]> = selectors.iter().map(|selector| [*selector]).collect();
        let violations = self.evaluate(&format!(
            "axe.run({{ include: {} }}).then((result) => result.violations.map((rule) => \
             `${{rule.id}}: ${{rule.help}}: ${{rule.nodes.map((node) => node.html + ' ' + node.failureSummary).join(' ')}}`))",
            json!(include)
        ))?;
        let lines = violations.as_array().cloned().unwrap_or_default();
        Ok(lines
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect())
    }
}
