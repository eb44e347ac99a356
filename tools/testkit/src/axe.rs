//! Whether people with a screen reader, a keyboard or enlarged text can use a page, as axe judges it in Chromium.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    Tab,
    error::{Context, TestkitError},
};

impl Tab<'_> {
    /// Loads the checker into the page, until the next page.
    ///
    /// # Errors
    /// [`TestkitError`] with the command that gets the checker where it is missing.
    pub fn load_axe(&mut self) -> Result<(), TestkitError> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let file = root.join("target/axe/node_modules/axe-core/axe.min.js");
        let axe = fs::read_to_string(&file).context(format_args!(
            "read {}: run `make target/axe/node_modules/.package-lock.json`",
            file.display()
        ))?;
        self.say(&axe).map(drop)
    }

    /// What is wrong with the elements of these selectors and all within them, a line for each rule that is broken. `html` is the whole
    /// page, with the rules for pages.
    ///
    /// # Errors
    /// [`TestkitError::Malformed`] where the page has no element of a selector, so that nothing passes because it is missing.
    pub fn violations(&mut self, selectors: &[&str]) -> Result<Vec<String>, TestkitError> {
        let missing = self.say(&format!(
            "{}.filter((one) => !document.querySelector(one))",
            json!(selectors)
        ))?;
        if missing != json!([]) {
            return Err(TestkitError::Malformed(format!(
                "not in the page: {missing}"
            )));
        }
        let include: Vec<[&str; 1]> = selectors.iter().map(|one| [*one]).collect();
        let found = self.say(&format!(
            "axe.run({{ include: {} }}).then((found) => found.violations.map((one) => \
             `${{one.id}}: ${{one.help}}: ${{one.nodes.map((node) => node.html + ' ' + node.failureSummary).join(' ')}}`))",
            json!(include)
        ))?;
        let lines = found.as_array().cloned().unwrap_or_default();
        Ok(lines
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect())
    }
}
