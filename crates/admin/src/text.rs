//! The text format of Prometheus, version 0.0.4: names, labels and values, escaped as the format requires.

use std::fmt::{Display, Write as _};

/// A metric family.
#[derive(Clone, Copy)]
pub(super) struct MetricFamily {
    pub(super) name: &'static str,
    pub(super) kind: MetricKind,
    pub(super) help: &'static str,
}

/// The type of a metric family.
#[derive(Clone, Copy)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// The values of one object for several families, and the labels of their samples.
pub(super) struct MetricRow<'l, T, const N: usize> {
    pub(super) labels: [(&'static str, &'l str); N],
    pub(super) of: T,
}

/// A family, and the function that gets its value from a row.
pub(super) type Column<T> = (MetricFamily, fn(&T) -> u64);

/// The text so far: each family once, followed by its samples.
#[derive(Default)]
pub(super) struct Text {
    written: String,
    /// The name of the last family.
    family: &'static str,
}

impl Text {
    /// Returns the complete text.
    pub(super) fn into_string(self) -> String {
        self.written
    }

    /// Begins a family.
    pub(super) fn family(&mut self, family: MetricFamily) {
        let MetricFamily { name, kind, help } = family;
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let _ = write!(self.written, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        self.family = name;
    }

    /// Adds a family of one sample.
    pub(super) fn value(&mut self, family: MetricFamily, value: u64) {
        self.family(family);
        self.sample(&[], value);
    }

    /// Adds a family whose samples differ in one label.
    pub(super) fn values<'l>(
        &mut self,
        family: MetricFamily,
        label: &str,
        values: impl IntoIterator<Item = (&'l str, u64)>,
    ) {
        self.family(family);
        for (text, value) in values {
            self.sample(&[(label, text)], value);
        }
    }

    /// Adds families with one sample for each row.
    pub(super) fn rows<T, const N: usize>(
        &mut self,
        rows: &[MetricRow<'_, T, N>],
        families: &[Column<T>],
    ) {
        for (family, value) in families {
            self.family(*family);
            for row in rows {
                self.sample(&row.labels, value(&row.of));
            }
        }
    }

    /// Adds a sample of the last family.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.part("", labels, value);
    }

    /// Adds a sample of a part of the last histogram: `_bucket`, `_sum` or `_count`.
    pub(super) fn part(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.written, "{}{suffix}", self.family);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.written.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.written, "{label}=\"");
            for c in text.chars() {
                match c {
                    '\\' => self.written.push_str("\\\\"),
                    '"' => self.written.push_str("\\\""),
                    '\n' => self.written.push_str("\\n"),
                    c => self.written.push(c),
                }
            }
            self.written.push('"');
        }
        if !labels.is_empty() {
            self.written.push('}');
        }
        let _ = writeln!(self.written, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_of_the_text() {
        let mut text = Text::default();
        let family = MetricFamily {
            name: "a_total",
            kind: MetricKind::Counter,
            help: "what",
        };
        text.value(family, 3);
        text.sample(&[("site", "x\"y\\\n"), ("le", "0.5")], 0.25);
        text.part("_sum", &[], 4);
        assert_eq!(
            text.written,
            "# HELP a_total what\n# TYPE a_total counter\na_total 3\na_total{site=\"x\\\"y\\\\\\n\",le=\"0.5\"} 0.25\na_total_sum 4\n"
        );
    }
}
