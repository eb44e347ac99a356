//! The output of the demo: its steps on stderr, and at the end a box with the URL on stdout.

use std::{
    fmt::Write as _,
    io::IsTerminal,
    path::Path,
    time::{Duration, Instant},
};

use galley_testkit::WordPress;
use indicatif::{ProgressBar, ProgressStyle};

/// Prints steps with their durations: with a spinner on a terminal, otherwise as plain lines.
pub(super) struct StepProgress {
    started: Instant,
    current: Option<Step>,
    is_terminal: bool,
}

struct Step {
    title: &'static str,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl StepProgress {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            current: None,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Finishes the previous step and starts the next. `usual_duration` is that on two cores.
    pub(super) fn step(&mut self, title: &'static str, usual_duration: Duration) {
        self.finish();
        let message = format!("{title} (usually {} s)", usual_duration.as_secs());
        let bar = self.is_terminal.then(|| {
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
        let started = Instant::now();
        self.current = Some(Step {
            title,
            started,
            bar,
        });
    }

    /// Finishes the last step and prints the total time.
    pub(super) fn done(&mut self) {
        self.finish();
        eprintln!("  {:>5.1} s in total", self.started.elapsed().as_secs_f64());
    }

    fn finish(&mut self) {
        if let Some(step) = self.current.take() {
            if let Some(bar) = step.bar {
                bar.finish_and_clear();
            }
            let took = step.started.elapsed().as_secs_f64();
            eprintln!("  {took:>5.1} s {}", step.title);
        }
    }
}

impl Drop for StepProgress {
    fn drop(&mut self) {
        // The spinner of a step that failed.
        if let Some(Step { bar: Some(bar), .. }) = self.current.take() {
            bar.finish_and_clear();
        }
    }
}

/// The box with the URL, the accounts and some commands.
pub(super) fn summary_box(
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
        lines.push("            edit a post, and open it in another browser".to_owned());
        lines.push(String::new());
    }
    let (binary, config) = (display_path(binary), display_path(config));
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
    lines.push("Ctrl-C stops the demo.".to_owned());
    framed(&lines)
}

/// The path relative to the current directory if it is below it, with `./` so that a shell can run it.
fn display_path(path: &Path) -> String {
    let current_dir = std::env::current_dir().unwrap_or_default();
    match path.strip_prefix(current_dir) {
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
    fn all_lines_of_the_box_have_the_same_width() {
        let text = framed(&["a".into(), String::new(), "für alle".into()]);
        assert_eq!(
            text,
            "┌──────────┐\n│ a        │\n│          │\n│ für alle │\n└──────────┘"
        );
    }
}
