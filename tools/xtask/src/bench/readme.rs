//! Writes the results that are part of the repository: the table in the README, its charts, and bench/results.md.

use std::{fs, path::Path};

use super::{chart, plan::BenchPlan, report::BenchReport, table};
use crate::error::CommandError;

/// Writes all of them below `root`, the folder with the README.
pub(super) fn write(
    root: &Path,
    plan: &BenchPlan,
    report: &BenchReport,
) -> Result<(), CommandError> {
    let path = root.join("README.md");
    let text = fs::read_to_string(&path)
        .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let text = replace_block(&text, &table::readme(plan, report))
        .ok_or_else(|| format!("`{}` lacks the markers {BEGIN} and {END}", path.display()))?;
    fs::write(&path, text)?;
    let images = root.join("docs/images");
    fs::create_dir_all(&images)?;
    for name in &plan.readme.charts {
        let scenario = report.scenario(name);
        if let Some(svg) = scenario.and_then(|it| chart::svg(it, report, &plan.subject)) {
            fs::write(images.join(format!("bench-{name}.svg")), svg)?;
        }
    }
    fs::write(root.join("bench/results.md"), table::markdown(plan, report))?;
    Ok(())
}

/// Replaces the text between the markers; `None` if they are missing.
fn replace_block(text: &str, block: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!(
        "{before}{BEGIN}\n{}\n{END}{after}",
        block.trim_end()
    ))
}

const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_markers_is_replaced() {
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let expected = format!("before\n{BEGIN}\nnew\n{END}\nafter\n");
        assert_eq!(replace_block(&text, "new\n"), Some(expected.clone()));
        assert_eq!(replace_block(&expected, "new"), Some(expected));
        assert_eq!(replace_block("no markers", "new"), None);
    }
}
