//! The text format of Prometheus, version 0.0.4: names, labels and values, escaped as it wants them.

use std::fmt::{Display, Write as _};

/// The format: each family once, its samples behind it.
#[derive(Default)]
pub(super) struct Text(String);

/// What a family counts.
#[derive(Clone, Copy)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

impl Text {
    /// All of it.
    pub(super) fn into_string(self) -> String {
        self.0
    }

    /// Begins a family.
    pub(super) fn family(&mut self, name: &str, kind: MetricKind, help: &str) {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Adds a sample of the family that was begun last.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"");
            for c in text.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_of_the_text() {
        let mut text = Text::default();
        text.family("a_total", MetricKind::Counter, "what");
        text.sample("a_total", &[], 3_u8);
        text.sample("a_total", &[("site", "x\"y\\\n"), ("le", "0.5")], 0.25);
        assert_eq!(
            text.0,
            "# HELP a_total what\n# TYPE a_total counter\na_total 3\na_total{site=\"x\\\"y\\\\\\n\",le=\"0.5\"} 0.25\n"
        );
    }
}
