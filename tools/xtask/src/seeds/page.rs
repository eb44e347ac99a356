//! A run as the page `docs/seeds.md` and its charts.

use std::fmt::Write as _;

use super::{
    article::{Article, Role},
    outcome::{ArticleOutcome, LineOutcome, Outcome, Row, Standing, TroubleOutcome, Verdict},
};
use galley_testkit::Spread;

use crate::bench::{Bar, Ground, bars, number_in, rounded};

/// The page.
pub(super) fn markdown(outcome: &Outcome, articles: &[Article]) -> String {
    let mut out = INTRODUCTION.to_owned();
    out += &circumstances(outcome);
    out += &overview(outcome);
    for found in &outcome.articles {
        if let Some(article) = of(articles, found) {
            section(&mut out, article, found);
        }
    }
    out += METHOD;
    out
}

/// The charts: file name and text.
pub(super) fn charts(outcome: &Outcome, articles: &[Article]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for found in &outcome.articles {
        for (at, line) in found.lines.iter().enumerate() {
            let article = of(articles, found);
            let chart = article.and_then(|article| chart(outcome, article, line));
            all.extend(chart.map(|svg| (chart_name(found, at), svg)));
        }
    }
    all
}

fn of<'a>(articles: &'a [Article], found: &ArticleOutcome) -> Option<&'a Article> {
    let mut all = articles.iter();
    all.find(|article| article.number == found.number)
}

fn chart_name(found: &ArticleOutcome, line: usize) -> String {
    format!("seeds-{}-{}.svg", found.name, line + 1)
}

fn chart(outcome: &Outcome, article: &Article, line: &LineOutcome) -> Option<String> {
    let measured = line
        .rows
        .iter()
        .filter_map(|row| Some((row, row.per_second?)));
    let all: Vec<Bar> = measured
        .map(|(row, value)| Bar {
            title: row.stack.to_owned(),
            value,
            note: chart_note(line, row),
            ground: match row.role {
                Role::Galley => Ground::Subject,
                Role::Before => Ground::Reference,
                Role::Between | Role::Final => Ground::Other,
            },
            has_quartiles: row.slices > 1,
        })
        .collect();
    let title = format!("{}. {}", article.number, article.title.replace('`', ""));
    let words = format!(
        "{}, {}: requests per second; more is better",
        line.title, line.command
    );
    let foot = format!(
        "{}, one core for the servers, one for ab; medians of slices in turns, thin lines between the quartiles{}",
        outcome.machine.cpu,
        if outcome.is_quick { "; quick run" } else { "" }
    );
    bars([&title, &words], &all, &foot)
}

fn chart_note(line: &LineOutcome, row: &Row) -> String {
    match line.gain(row.role) {
        Some(gain) if row.role != Role::Before => format!("  =  {}x", rounded(gain)),
        _ => String::new(),
    }
}

/// Where, when, with what.
fn circumstances(outcome: &Outcome) -> String {
    let machine = &outcome.machine;
    let versions = machine.versions.iter();
    let versions: Vec<String> = versions
        .map(|(name, text)| format!("{name} {}", number_in(text)))
        .collect();
    let mut out = format!(
        "{} UTC, {} ({} cores), Linux {}. {}.\n\n",
        machine.began.replace('T', " "),
        machine.cpu,
        machine.cores,
        machine.kernel,
        versions.join(", ")
    );
    if outcome.is_quick {
        out += "**A quick run, with fewer requests: its figures vary. `make seeds` writes those of a complete run.**\n\n";
    }
    if outcome.others > MOST_OTHERS {
        let _ = writeln!(
            out,
            "The machine was not quiet: up to {:.0} % of it went to other work. Compare ratios only.\n",
            outcome.others * 100.0
        );
    }
    out
}

/// One row for each line.
fn overview(outcome: &Outcome) -> String {
    if outcome.articles.iter().all(|found| found.lines.is_empty()) {
        return String::new();
    }
    let mut out = String::from(
        "| | line | gain as published | gain here | gain with Galley | Galley and the article's stack: rate | CPU |\n|--:|---|--:|--:|--:|---|--:|\n",
    );
    for found in &outcome.articles {
        for line in &found.lines {
            let _ = writeln!(
                out,
                "| {} | {}: `{}` | {} | {} | {} | {} | {} |",
                found.number,
                line.title,
                line.command,
                times(line.published_gain()),
                times(line.gain(Role::Final)),
                times(line.gain(Role::Galley)),
                standing(line.ahead_of(Role::Final)),
                times(line.cpu_ratio(Role::Final)),
            );
        }
    }
    out += "\nA gain is the rate of a stack divided by the rate of the stack that the author started with. CPU is the server's processor time for a request at Galley, divided\nby that of the article's stack.\n";
    out + &tally(outcome)
}

/// How many of the checks each kind of stack passes.
fn tally(outcome: &Outcome) -> String {
    let troubles = outcome.articles.iter().flat_map(|found| &found.troubles);
    let verdicts: Vec<_> = troubles.flat_map(|trouble| &trouble.verdicts).collect();
    let count = |role: Role| {
        let same = verdicts.iter().filter(|one| one.role == role);
        let passed = same.clone().filter(|one| one.verdict.passed).count();
        format!("{passed} of {}", same.count())
    };
    format!(
        "Of the checks of what the authors had trouble with, the stacks that they started with pass {}, those that they ended with {}, \
         and Galley {}.\n",
        count(Role::Before),
        count(Role::Final),
        count(Role::Galley)
    )
}

fn times(gain: Option<f64>) -> String {
    gain.map_or_else(|| "-".to_owned(), |gain| format!("{}x", rounded(gain)))
}

fn standing(ratio: Option<Spread>) -> String {
    let Some(ratio) = ratio else {
        return "-".to_owned();
    };
    let word = match Standing::of(ratio) {
        Standing::Ahead => "ahead",
        Standing::Level => "level",
        Standing::Behind => "**behind**",
    };
    format!(
        "{word}, {}x ({} to {})",
        rounded(ratio.median),
        rounded(ratio.lower),
        rounded(ratio.upper)
    )
}

fn section(out: &mut String, article: &Article, found: &ArticleOutcome) {
    let _ = writeln!(
        out,
        "\n## {}. {}\n\n{}\n\n{}",
        article.number, article.title, article.about, article.departs
    );
    for (at, line) in found.lines.iter().enumerate() {
        let _ = writeln!(out, "\n{}, `{}`:\n", line.title, line.command);
        rates(out, line);
        let name = chart_name(found, at);
        let _ = writeln!(
            out,
            "\n![{}: {}](images/{name})",
            article.title.replace('`', ""),
            line.title
        );
    }
    if !found.troubles.is_empty() {
        out.push('\n');
        troubles(out, &found.troubles);
    }
}

fn rates(out: &mut String, line: &LineOutcome) {
    out.push_str(
        "| stack | published requests/s | requests/s | gain | CPU us/request | server core | ab's core | memory MB | failed |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in &line.rows {
        let mut published = line.published.iter();
        let published = published
            .find(|one| one.role == row.role)
            .map_or_else(|| "-".to_owned(), |one| rounded(one.per_second));
        let median = |spread: Option<Spread>| {
            spread.map_or_else(|| "-".to_owned(), |spread| rounded(spread.median))
        };
        let _ = writeln!(
            out,
            "| {} | {published} | {} | {} | {} | {} | {} | {:.0} | {} |",
            row.stack,
            median(row.per_second),
            times(line.gain(row.role)),
            median(row.cpu_us),
            share(row.server_busy),
            share(row.client_busy),
            row.memory_mb,
            row.failed
        );
    }
}

fn share(busy: Option<Spread>) -> String {
    busy.map_or_else(
        || "-".to_owned(),
        |busy| format!("{:.0} %", busy.median * 100.0),
    )
}

fn troubles(out: &mut String, troubles: &[TroubleOutcome]) {
    let Some(first) = troubles.first() else {
        return;
    };
    let stacks: Vec<&str> = first.verdicts.iter().map(|one| one.stack).collect();
    let _ = writeln!(
        out,
        "| what must be so | {} |\n|---|{}",
        stacks.join(" | "),
        "---|".repeat(stacks.len())
    );
    for trouble in troubles {
        let cell = |stack: &&str| {
            let one = trouble.verdicts.iter().find(|one| one.stack == *stack);
            one.map_or_else(|| "-".to_owned(), |one| verdict(&one.verdict))
        };
        let cells: Vec<String> = stacks.iter().map(cell).collect();
        let _ = writeln!(out, "| {} | {} |", trouble.words, cells.join(" | "));
    }
}

fn verdict(verdict: &Verdict) -> String {
    let detail = verdict.detail.replace('|', "\\|");
    if verdict.passed {
        format!("yes: {detail}")
    } else {
        format!("**no**: {detail}")
    }
}

const INTRODUCTION: &str = "# Five WordPress stacks, rebuilt

Five published articles do the same: they measure a site, change its stack, and measure again. `make seeds` builds each of these stacks again from the
article's own text, with the programs that Debian has today, and puts Galley beside it, in front of the same WordPress. It runs the article's own command
line of `ab` on all of them, and checks what its author had trouble with.

```console
$ make seeds
$ make seeds ONLY=4
$ make seeds QUICK=1
```

The command writes this page and its charts. It fails if Galley is behind a stack on a line, or has one of the troubles.

";
const METHOD: &str = "
## How it is measured

- **The same for all.** All stacks have the same WordPress with its sample site and a mobile edition, the same database, and PHP with opcache: in Apache
  where the article says so, otherwise in PHP-FPM with Debian's five workers, as Galley has it. The servers share one core; `ab` has the other.
- **The article's line.** `ab` runs with the published number of connections and requests, and with `-k` where the article has it. The requests are sent in
  slices, in which the stacks take turns. A stack that the author started with may need minutes for as many; it gets fewer, with the same number of
  connections or those of the article's own line for it. The tables show medians.
- **Ahead** means that Galley's rate was higher in three quarters of the slices, compared slice by slice; *behind* is the reverse, and *level* everything
  between. In brackets are the quartiles. Where the core of the servers is not busy and that of `ab` is, `ab` is the limit: compare the
  processor time.
- **CPU us/request** is the processor time of all processes of the stack, PHP included and the database not. **memory** is their memory after a slice, with
  shared parts divided among them (PSS).
- **The checks** do what a visitor or an editor would do, through the stack: log in, edit a post, request a page with a phone, kill PHP. Each has
  pages of its own, so that what is stored of them is known. All programs start with 1,024 descriptors, as from a shell; some raise the limit themselves.
- **Galley** has its [plugin](how-to/wordpress-plugin.md) and the default settings, with `device_variants` for the mobile edition.
- **Not rebuilt** are the networks, processors and kernels of the articles. Compare the gains, not the rates.

[The benchmark](../bench/README.md) compares Galley with the best settings of other servers.
";
/// Above that a reader should know.
const MOST_OTHERS: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::{articles::ARTICLES, outcome::tests::run};

    fn outcome() -> Outcome {
        let rates = [
            (Role::Before, [10.0, 10.0]),
            (Role::Final, [50.0, 70.0]),
            (Role::Galley, [100.0, 100.0]),
        ];
        run(rates, [true, false, true])
    }

    #[test]
    fn the_page_has_figures_gains_and_verdicts() {
        let text = markdown(&outcome(), ARTICLES);
        for wanted in [
            "| 5 | The home page of WordPress: `ab -c 1` | 16000x | 6.00x | 10.0x | ahead, 1.71x (1.57 to 1.86) | 1.00x |",
            "| nginx + Apache | 8000 | 60.0 | 6.00x | 20.0 | 70 % | 95 % | 40 | 0 |",
            "| The login works | yes: seen \\| here | **no**: seen \\| here | yes: seen \\| here |",
            "started with pass 1 of 1, those that they ended with 0 of 1, and Galley 1 of 1",
            "A quick run",
            "up to 20 % of it",
            "nginx 1.22.1",
        ] {
            assert!(text.contains(wanted), "`{wanted}` is not in\n{text}");
        }
    }

    #[test]
    fn charts_have_a_bar_for_each_stack() {
        let charts = charts(&outcome(), ARTICLES);
        let [(name, svg)] = charts.as_slice() else {
            panic!("{} charts", charts.len());
        };
        assert_eq!(name, "seeds-centos-1.svg");
        assert_eq!(svg.matches("<rect x=").count(), 3);
        assert!(
            svg.contains(">100.0  =  10.0x<") || svg.contains(">100  =  10.0x<"),
            "{svg}"
        );
    }
}
