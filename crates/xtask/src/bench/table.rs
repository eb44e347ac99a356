//! The report as Markdown: a table for each page, contenders that were asked alike under one another.

use std::fmt::Write as _;

use super::{
    report::{Report, Row},
    spread::Spread,
};

/// Everything a reader needs, ready for a README.
pub(super) fn markdown(report: &Report) -> String {
    let mut out = preface(report);
    let mut page = "";
    for row in &report.rows {
        if row.page != page {
            page = &row.page;
            let _ = write!(
                out,
                "\n**WordPress, {page}**\n\n{}",
                header(&report.baseline)
            );
        }
        out.push_str(&line(report, row));
    }
    out.push_str(NOTES);
    out
}

fn preface(report: &Report) -> String {
    let machine = &report.machine;
    let mut out = format!(
        "{}, {} cores, Linux {}.",
        machine.cpu, machine.cores, machine.kernel
    );
    match (machine.pinned.server, machine.pinned.client) {
        (Some(_), Some(_)) => out.push_str(" Server and client have a core each."),
        _ => out.push_str(" Server and client share the machine: nothing was pinned."),
    }
    let spread = if report.rounds > 1 {
        format!("Medians of {} rounds (least to most)", report.rounds)
    } else {
        "One round".to_owned()
    };
    let _ = writeln!(
        out,
        " {spread}, {} s each, {} connections kept open, {} PHP workers.",
        report.seconds, report.connections, report.php_workers
    );
    let versions = machine.versions.iter();
    let versions = versions.map(|(name, text)| format!("{name} {}", number_in(text)));
    let _ = writeln!(
        out,
        "Versions: {}.",
        versions.collect::<Vec<_>>().join(", ")
    );
    let others = report.most_others_busy();
    if others > QUIET {
        let _ = writeln!(
            out,
            "**The machine was not quiet: up to {:.0} % of it was busy with other work during a measurement.**",
            others * 100.0
        );
    }
    out
}

fn line(report: &Report, row: &Row) -> String {
    let asked = match row.accept_encoding.as_str() {
        "" => "nothing",
        coding => coding,
    };
    let head = format!("| {} | {} | {asked} |", row.client, row.title);
    let (Some(figures), Some(last)) = (row.median, row.rounds.last()) else {
        return format!("{head} failed | | | | | | | | | |\n");
    };
    let disturbed = if figures.others_busy.median > QUIET {
        "~ "
    } else {
        ""
    };
    let ratio = report.baseline_of(row).map_or_else(
        || "-".to_owned(),
        |base| short(figures.cpu_us.median / base.cpu_us.median),
    );
    format!(
        "{head} {} | {} | {disturbed}{} | {} | {} | {} | {ratio} | {:.0} % | {} | {} |\n",
        last.coding,
        last.bytes,
        with_spread(figures.per_second),
        short(figures.p50_ms.median),
        with_spread(figures.p99_ms),
        with_spread(figures.cpu_us),
        figures.server_busy.median * 100.0,
        kept_open(row),
        figures.failed,
    )
}

/// Share of the answers after which the connection stayed open; only ab tells.
fn kept_open(row: &Row) -> String {
    let requests: u64 = row.rounds.iter().map(|sample| sample.requests).sum();
    let kept: Option<u64> = row.rounds.iter().map(|sample| sample.kept_alive).sum();
    kept.map_or_else(
        || "-".to_owned(),
        |kept| format!("{} %", kept.saturating_mul(100) / requests.max(1)),
    )
}

/// The version in what a program says of itself: the first word with digits on both sides of a point.
fn number_in(text: &str) -> &str {
    let has_point = |word: &&str| {
        let bytes = word.as_bytes();
        let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        (1..bytes.len()).any(|at| bytes.get(at) == Some(&b'.') && digit(at - 1) && digit(at + 1))
    };
    text.split([' ', '/']).find(has_point).unwrap_or(text)
}

fn with_spread(spread: Spread) -> String {
    let (median, least, most) = (
        short(spread.median),
        short(spread.least),
        short(spread.most),
    );
    if least == most {
        median
    } else {
        format!("{median} ({least}-{most})")
    }
}

/// Three digits, or all before the point.
fn short(number: f64) -> String {
    let digits = match number.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.digits$}")
}

fn header(baseline: &str) -> String {
    format!(
        "| client | contender | coding asked | came as | bytes | requests/s | p50 ms | p99 ms | \
         server CPU us/request | CPU, {baseline} = 1 | server core | kept open | failed |\n\
         |---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    )
}

const NOTES: &str = "
Bytes are head and body of one answer. Where gzip was asked for and identity came, nothing was compressed and more was
sent. Where the server core is far below 100 %, the client was the limit: there compare CPU per request, not requests per
second. Rows with ~ were disturbed by other work of the machine. The database's CPU is not counted. Percentiles are of the
answers that came before the end of a measurement.
";
/// Below this share of the machine other work is not worth a word.
const QUIET: f64 = 0.05;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{
        super::{client::Cell, machine::Machine, measure::Sample, pin::Cores, plan::Plan},
        *,
    };

    fn sample(cpu_us: f64) -> Sample {
        Sample {
            round: 1,
            coding: "gzip".to_owned(),
            bytes: 12_345,
            requests: 1000,
            failed: 1,
            kept_alive: None,
            per_second: 4321.0,
            p50_ms: 1.5,
            p99_ms: 22.25,
            cpu_us,
            database_cpu_us: 0.0,
            server_busy: 0.995,
            client_busy: 0.5,
            others_busy: 0.2,
        }
    }

    #[test]
    fn versions_without_the_words_around_them() {
        for (text, wanted) in [
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("This is ApacheBench, Version 2.3 <$Revision$>", "2.3"),
            (
                "wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer",
                "4.1.0-3+b2",
            ),
            (
                "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian",
                "10.11.19-MariaDB-0+deb12u1",
            ),
            ("not found: No such file", "not found: No such file"),
            ("", ""),
        ] {
            assert_eq!(number_in(text), wanted);
        }
    }

    #[test]
    fn every_way_of_asking_has_a_line() {
        let plan = Plan::shipped();
        let machine = Machine {
            began: "now".to_owned(),
            cpu: "Abacus".to_owned(),
            cores: 2,
            kernel: "6.1".to_owned(),
            pinned: Cores {
                server: Some(0),
                client: Some(1),
            },
            versions: BTreeMap::from([("nginx".to_owned(), "nginx/1".to_owned())]),
        };
        let mut report = Report::new(&plan, machine);
        let cells = Cell::all(&plan);
        let galley = plan
            .contenders
            .iter()
            .find(|one| one.name == "galley")
            .unwrap();
        report.add(galley, &cells[1], sample(20.0));
        let nginx = plan
            .contenders
            .iter()
            .find(|one| one.name == "nginx-cache")
            .unwrap();
        for cpu_us in [1000.0, 3000.0, 2000.0] {
            report.add(nginx, &cells[1], sample(cpu_us));
        }
        let text = markdown(&report);
        let wanted = "| ab | nginx proxy_cache + Apache | gzip | gzip | 12345 | ~ 4321 | 1.50 | 22.2 | 2000 (1000-3000) | 100 | 100 % | - | 3 |";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("| 20.0 | 1.00 |"), "{text}");
        assert!(text.contains("not quiet: up to 20 %"), "{text}");
        let lines = text
            .lines()
            .filter(|line| line.starts_with("| ab") || line.starts_with("| wrk"));
        assert_eq!(lines.clone().count(), 32);
        let columns = |line: &str| line.matches('|').count();
        assert!(lines.clone().all(|line| columns(line) == 14), "{text}");
    }
}
