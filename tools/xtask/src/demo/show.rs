//! What the demo shows: its steps on stderr while it works, and on stdout the box with the address at the end.

use std::{
    fmt::Write as _,
    io::IsTerminal,
    path::Path,
    time::{Duration, Instant},
};

use galley_testkit::WordPress;
use indicatif::{ProgressBar, ProgressStyle};

/// Steps with their times: a spinner on a terminal, plain lines elsewhere.
pub(super) struct Talk {
    began: Instant,
    current: Option<Step>,
    terminal: bool,
}

struct Step {
    what: &'static str,
    since: Instant,
    bar: Option<ProgressBar>,
}

impl Talk {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            current: None,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Ends the step before and begins the next, which takes about `usually` on two cores.
    pub(super) fn step(&mut self, what: &'static str, usually: Duration) {
        self.finish();
        let message = format!("{what} (usually {} s)", usually.as_secs());
        let bar = self.terminal.then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.set_message(message.clone());
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        if bar.is_none() {
            eprintln!("          {message} ...");
        }
        let since = Instant::now();
        self.current = Some(Step { what, since, bar });
    }

    /// Ends the last step.
    pub(super) fn done(&mut self) {
        self.finish();
        eprintln!("  {:>5.1} s in all", self.began.elapsed().as_secs_f64());
    }

    fn finish(&mut self) {
        if let Some(step) = self.current.take() {
            if let Some(bar) = step.bar {
                bar.finish_and_clear();
            }
            let took = step.since.elapsed().as_secs_f64();
            eprintln!("  {took:>5.1} s {}", step.what);
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // A step that failed leaves no spinner behind.
        if let Some(Step { bar: Some(bar), .. }) = self.current.take() {
            bar.finish_and_clear();
        }
    }
}

/// The box with everything a person needs now.
pub(super) fn sign(
    url: &str,
    accounts: Option<&WordPress>,
    binary: &Path,
    config: &Path,
) -> String {
    let mut lines = vec![format!("Galley serves WordPress at  {url}/"), String::new()];
    if let Some(site) = accounts {
        lines.push(format!("Log in at   {url}/wp-login.php"));
        lines.push(format!("User        {}  (also: editor)", site.user));
        lines.push(format!("Password    {}", site.password));
        lines.push(format!(
            "Plugin      {url}/wp-admin/options-general.php?page=galley"
        ));
        lines.push("            edit a post, and look at it in another browser".to_owned());
        lines.push(String::new());
    }
    let (binary, config) = (shown(binary), shown(config));
    lines.push("In another terminal:".to_owned());
    lines.push(format!("curl -sI {url}/ | grep -i cache-status"));
    lines.push(format!("{binary} why {url}/ --config {config}"));
    lines.push(format!("{binary} status --config {config}"));
    lines.push(format!("{binary} purge --all --config {config}"));
    if accounts.is_none() {
        lines.push("With the plugin, every edit purges exactly what it changes:".to_owned());
        lines.push(format!("{binary} plugin install DIR --config {config}"));
    }
    lines.push(String::new());
    lines.push("Ctrl-C ends everything.".to_owned());
    framed(&lines)
}

/// Relative to the current directory where it lies below it, and so that a shell finds it.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    match path.strip_prefix(here) {
        Ok(below) => Path::new(".").join(below).display().to_string(),
        Err(_) => path.display().to_string(),
    }
}

fn framed(lines: &[String]) -> String {
    let width = lines
        .iter()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0);
    let bar = "─".repeat(width + 2);
    let mut out = format!("┌{bar}┐\n");
    for line in lines {
        let _ = writeln!(out, "│ {line:<width$} │");
    }
    let _ = write!(out, "└{bar}┘");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_of_the_box_are_equally_wide() {
        let text = framed(&["a".into(), String::new(), "für alle".into()]);
        assert_eq!(
            text,
            "┌──────────┐\n│ a        │\n│          │\n│ für alle │\n└──────────┘"
        );
    }
}
