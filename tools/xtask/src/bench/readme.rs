//! The files that the repository shows of a run: the README's block, its charts, the whole table.

use std::{fs, path::Path};

use super::{chart, plan::Plan, report::Report, table};
use crate::demo::CommandError;

/// Writes all of them below `root`, the folder of the README.
pub(super) fn write(root: &Path, plan: &Plan, report: &Report) -> Result<(), CommandError> {
    let path = root.join("README.md");
    let text = fs::read_to_string(&path)
        .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let text = replaced(&text, &table::readme(plan, report)).ok_or_else(|| {
        format!(
            "`{}` has no place for it: {BEGIN} ... {END}",
            path.display()
        )
    })?;
    fs::write(&path, text)?;
    let images = root.join("docs/images");
    fs::create_dir_all(&images)?;
    for name in &plan.readme.charts {
        let section = report.section(name);
        if let Some(svg) = section.and_then(|one| chart::svg(one, report, &plan.subject)) {
            fs::write(images.join(format!("bench-{name}.svg")), svg)?;
        }
    }
    fs::write(root.join("bench/results.md"), table::markdown(plan, report))?;
    Ok(())
}

/// The text with another block between its marks.
fn replaced(text: &str, block: &str) -> Option<String> {
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
    fn only_the_block_is_replaced() {
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let wanted = format!("before\n{BEGIN}\nnew\n{END}\nafter\n");
        assert_eq!(replaced(&text, "new\n"), Some(wanted.clone()));
        assert_eq!(replaced(&wanted, "new"), Some(wanted));
        assert_eq!(replaced("no marks", "new"), None);
    }
}
