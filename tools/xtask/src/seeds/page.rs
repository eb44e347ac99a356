//! Renders the results: the summary `docs/seeds.md`, the details `bench/seeds.md` and the charts.

use std::fmt::Write as _;

use super::{
    article::{Article, Role},
    results::{
        AbLineResult, ArticleResults, ProbeVerdict, ProblemResult, RateComparison, SeedsResults,
        StackFigures,
    },
};
use galley_testkit::Quartiles;

use crate::bench::{Bar, BarRole, bar_chart, rounded, version_number};

/// The page for the manual, in Markdown.
pub(super) fn summary(results: &SeedsResults) -> String {
    let mut out = INTRODUCTION.to_owned();
    out += &environment(results);
    out += &overview(results);
    out += METHOD;
    out
}

/// The page with the tables and charts of each article, in Markdown.
pub(super) fn details(results: &SeedsResults, articles: &[Article]) -> String {
    let mut out = DETAILS.to_owned();
    for article_results in &results.articles {
        if let Some(article) = article_of(articles, article_results) {
            section(&mut out, article, article_results);
        }
    }
    out += DETAILS_METHOD;
    out
}

/// The charts: file name and SVG text.
pub(super) fn charts(results: &SeedsResults, articles: &[Article]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for article_results in &results.articles {
        for (at, line) in article_results.lines.iter().enumerate() {
            let article = article_of(articles, article_results);
            let chart = article.and_then(|article| chart(results, article, line));
            all.extend(chart.map(|svg| (chart_name(article_results, at), svg)));
        }
    }
    all
}

fn article_of<'a>(
    articles: &'a [Article],
    article_results: &ArticleResults,
) -> Option<&'a Article> {
    let mut all = articles.iter();
    all.find(|article| article.number == article_results.number)
}

fn chart_name(article_results: &ArticleResults, line: usize) -> String {
    format!("seeds-{}-{}.svg", article_results.name, line + 1)
}

fn chart(results: &SeedsResults, article: &Article, line: &AbLineResult) -> Option<String> {
    let measured = line
        .rows
        .iter()
        .filter_map(|row| Some((row, row.per_second?)));
    let all: Vec<Bar> = measured
        .map(|(row, value)| Bar {
            title: row.stack.to_owned(),
            value,
            note: chart_note(line, row),
            role: match row.role {
                Role::Galley => BarRole::Subject,
                Role::Original => BarRole::Reference,
                Role::Intermediate | Role::Final => BarRole::Other,
            },
            has_quartiles: row.slices > 1,
        })
        .collect();
    let title = format!("{}. {}", article.number, article.title.replace('`', ""));
    let subtitle = format!(
        "{}, {}: requests per second; more is better",
        line.title, line.command
    );
    let footer = format!(
        "{}, one core for the servers, one for ab; medians of slices, measured alternately, thin lines between the quartiles{}",
        results.machine.cpu,
        if results.is_quick { "; quick run" } else { "" }
    );
    bar_chart([&title, &subtitle], &all, &footer)
}

fn chart_note(line: &AbLineResult, row: &StackFigures) -> String {
    match line.gain(row.role) {
        Some(gain) if row.role != Role::Original => format!("  =  {}x", rounded(gain)),
        _ => String::new(),
    }
}

/// Date, machine and program versions.
fn environment(results: &SeedsResults) -> String {
    let machine = &results.machine;
    let versions = machine.versions.iter();
    let versions: Vec<String> = versions
        .map(|(name, text)| format!("{name} {}", version_number(text)))
        .collect();
    let mut out = format!(
        "{} UTC, {} ({} cores), Linux {}. {}.\n\n",
        machine.began.replace('T', " "),
        machine.cpu,
        machine.cores,
        machine.kernel,
        versions.join(", ")
    );
    if results.is_quick {
        out += "**A quick run with fewer requests: its figures vary. `make seeds` without QUICK runs all requests.**\n\n";
    }
    if results.others_share > MAX_OTHERS {
        let _ = writeln!(
            out,
            "The machine was not idle: other processes used up to {:.0} % of it. Compare ratios only.\n",
            results.others_share * 100.0
        );
    }
    out
}

/// A table with a row for each command line.
fn overview(results: &SeedsResults) -> String {
    if results
        .articles
        .iter()
        .all(|article_results| article_results.lines.is_empty())
    {
        return String::new();
    }
    let mut out = String::from(
        "| | line | gain as published | gain here | gain with Galley | Galley and the article's stack: rate | CPU |\n|--:|---|--:|--:|--:|---|--:|\n",
    );
    for article_results in &results.articles {
        for line in &article_results.lines {
            let _ = writeln!(
                out,
                "| {} | {}: `{}` | {} | {} | {} | {} | {} |",
                article_results.number,
                line.title,
                line.command,
                factor(line.published_gain()),
                factor(line.gain(Role::Final)),
                factor(line.gain(Role::Galley)),
                rate_comparison(line.ahead_of(Role::Final)),
                factor(line.cpu_ratio(Role::Final)),
            );
        }
    }
    out += "\nA gain is the rate of a stack divided by the rate of the author's original stack. CPU is Galley's processor time per request, divided\nby that of the author's final stack.\n";
    out + &check_summary(results)
}

/// How many checks each kind of stack passes.
fn check_summary(results: &SeedsResults) -> String {
    let problems = results
        .articles
        .iter()
        .flat_map(|article_results| &article_results.problems);
    let verdicts: Vec<_> = problems.flat_map(|problem| &problem.verdicts).collect();
    let count = |role: Role| {
        let same = verdicts.iter().filter(|it| it.role == role);
        let passed = same.clone().filter(|it| it.verdict.passed).count();
        format!("{passed} of {}", same.count())
    };
    format!(
        "Of the checks for the problems that the articles describe, the original stacks pass {}, the final stacks {}, \
         and Galley {}.\n",
        count(Role::Original),
        count(Role::Final),
        count(Role::Galley)
    )
}

fn factor(gain: Option<f64>) -> String {
    gain.map_or_else(|| "-".to_owned(), |gain| format!("{}x", rounded(gain)))
}

fn rate_comparison(ratio: Option<Quartiles>) -> String {
    let Some(ratio) = ratio else {
        return "-".to_owned();
    };
    let word = match RateComparison::of(ratio) {
        RateComparison::Ahead => "ahead",
        RateComparison::Level => "level",
        RateComparison::Behind => "**behind**",
    };
    format!(
        "{word}, {}x ({} to {})",
        rounded(ratio.median),
        rounded(ratio.lower),
        rounded(ratio.upper)
    )
}

fn section(out: &mut String, article: &Article, article_results: &ArticleResults) {
    let _ = writeln!(
        out,
        "\n## {}. {}\n\n{}\n\n{}",
        article.number, article.title, article.about, article.departs
    );
    for (at, line) in article_results.lines.iter().enumerate() {
        let _ = writeln!(out, "\n{}, `{}`:\n", line.title, line.command);
        rates(out, line);
        let name = chart_name(article_results, at);
        let _ = writeln!(
            out,
            "\n![{}: {}](../docs/images/{name})",
            article.title.replace('`', ""),
            line.title
        );
    }
    if !article_results.problems.is_empty() {
        out.push('\n');
        problems(out, &article_results.problems);
    }
}

fn rates(out: &mut String, line: &AbLineResult) {
    out.push_str(
        "| stack | published requests/s | requests/s | gain | CPU us/request | server core | ab's core | memory MB | failed |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in &line.rows {
        let mut published = line.published.iter();
        let published = published
            .find(|it| it.role == row.role)
            .map_or_else(|| "-".to_owned(), |it| rounded(it.per_second));
        let median = |spread: Option<Quartiles>| {
            spread.map_or_else(|| "-".to_owned(), |spread| rounded(spread.median))
        };
        let _ = writeln!(
            out,
            "| {} | {published} | {} | {} | {} | {} | {} | {:.0} | {} |",
            row.stack,
            median(row.per_second),
            factor(line.gain(row.role)),
            median(row.cpu_us),
            share(row.server_busy),
            share(row.client_busy),
            row.memory_mb,
            row.failed
        );
    }
}

fn share(busy: Option<Quartiles>) -> String {
    busy.map_or_else(
        || "-".to_owned(),
        |busy| format!("{:.0} %", busy.median * 100.0),
    )
}

fn problems(out: &mut String, problems: &[ProblemResult]) {
    let Some(first) = problems.first() else {
        return;
    };
    let stacks: Vec<&str> = first.verdicts.iter().map(|it| it.stack).collect();
    let _ = writeln!(
        out,
        "| requirement | {} |\n|---|{}",
        stacks.join(" | "),
        "---|".repeat(stacks.len())
    );
    for problem in problems {
        let cell = |stack: &&str| {
            let it = problem.verdicts.iter().find(|it| it.stack == *stack);
            it.map_or_else(|| "-".to_owned(), |it| verdict(&it.verdict))
        };
        let cells: Vec<String> = stacks.iter().map(cell).collect();
        let _ = writeln!(out, "| {} | {} |", problem.requirement, cells.join(" | "));
    }
}

fn verdict(verdict: &ProbeVerdict) -> String {
    let detail = verdict.detail.replace('|', "\\|");
    if verdict.passed {
        format!("yes: {detail}")
    } else {
        format!("**no**: {detail}")
    }
}

const INTRODUCTION: &str = "# Five WordPress stacks, rebuilt

`make seeds` rebuilds the stacks of five published articles with the programs of Debian, puts Galley in front of the same WordPress, runs each article's own `ab`
command line, and checks the problems that the article describes. [The details](../bench/seeds.md) have every stack, chart, check and the method.

";
const METHOD: &str = "
*Ahead* means that Galley's rate was higher in three quarters of the slices; *behind* is the reverse, and *level* is any other result. The quartiles are in
brackets. Networks, processors and kernels of the articles are not rebuilt: compare the gains, not the rates.
[The benchmark](../bench/README.md) compares Galley with the best settings of other servers.
";
const DETAILS: &str = "# Five WordPress stacks, rebuilt: details

`make seeds` writes this page and its charts. [The summary](../docs/seeds.md) names the machine.
";
const DETAILS_METHOD: &str = "
## Method

- **Setup.** All stacks have the same WordPress with its sample site and a mobile edition, the same database, and PHP with opcache: in Apache if the article
  uses it, otherwise in PHP-FPM with Debian's five workers. The servers share one core; `ab` has the other. Galley has its
  [plugin](../docs/how-to/wordpress-plugin.md) and the default settings, with `device_variants` for the mobile edition.
- **Command lines.** `ab` runs with the published numbers, in slices, alternately on all stacks. Original stacks that would need minutes receive fewer
  requests. The tables show medians. If the core of the servers is not busy and that of `ab` is, `ab` is the limit: compare the processor time.
- **CPU us/request** is the processor time of all processes of the stack, with PHP and without the database. **memory** is their memory after a slice (PSS).
- **The checks** send the requests of visitors and editors; one kills PHP. Each uses pages of its own. All programs start with a soft limit of 1,024
  descriptors, as from a shell.
";
/// The share of the machine above which the page mentions other work.
const MAX_OTHERS: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::{articles::ARTICLES, results::tests::sample_results};

    fn sample() -> SeedsResults {
        let rates = [
            (Role::Original, [10.0, 10.0]),
            (Role::Final, [50.0, 70.0]),
            (Role::Galley, [100.0, 100.0]),
        ];
        sample_results(rates, [true, false, true])
    }

    #[test]
    fn the_page_has_figures_gains_and_verdicts() {
        let text = summary(&sample()) + &details(&sample(), ARTICLES);
        for expected in [
            "| 5 | The home page of WordPress: `ab -c 1` | 16000x | 6.00x | 10.0x | ahead, 1.71x (1.57 to 1.86) | 1.00x |",
            "| nginx + Apache | 8000 | 60.0 | 6.00x | 20.0 | 70 % | 95 % | 40 | 0 |",
            "| The login works | yes: seen \\| here | **no**: seen \\| here | yes: seen \\| here |",
            "the original stacks pass 1 of 1, the final stacks 0 of 1, and Galley 1 of 1",
            "A quick run",
            "up to 20 % of it",
            "nginx 1.22.1",
        ] {
            assert!(text.contains(expected), "`{expected}` is not in\n{text}");
        }
    }

    #[test]
    fn charts_have_a_bar_for_each_stack() {
        let charts = charts(&sample(), ARTICLES);
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
