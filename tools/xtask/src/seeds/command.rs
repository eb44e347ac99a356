//! The command line of `xtask seeds`, and the run: one article after the other, each with newly started stacks.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use super::{
    ab_line,
    article::{Article, Probe, Problem, Role},
    articles::ARTICLES,
    environment::{EnvironmentSettings, RunMode, SeedsEnvironment},
    page,
    probe::{ScheduledPost, check},
    results::{
        AbLineResult, ArticleResults, ProbeVerdict, ProblemResult, SeedsResults, StackVerdict,
    },
    stack::Stack,
};
use crate::{
    bench::{Machine, Placeholders, UsageError, existing_program, raise_descriptor_limit},
    error::CommandError,
    interrupt::Interrupt,
};

/// The options of `xtask seeds`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The galley program
    #[arg(long, value_name = "PATH", default_value = "target/release/galley")]
    galley: PathBuf,
    /// The folder of the plugin
    #[arg(long, value_name = "FOLDER", default_value = "wordpress-plugin/galley")]
    plugin: PathBuf,
    /// Only these articles, by number
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    only: Vec<usize>,
    /// Fewer requests: takes five minutes
    #[arg(long)]
    quick: bool,
    /// The checks of `make test`: no load figures, and only the author's final stack and Galley
    #[arg(long, conflicts_with = "quick")]
    short: bool,
    /// Print all results as JSON instead of the tables
    #[arg(long)]
    json: bool,
    /// The repository, to which a run of all articles writes its pages and charts
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    repository: PathBuf,
}

/// Runs the selected articles, writes the page, and prints the results.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let articles = selected_articles(&arguments.only)?;
    let galley = existing_program(&arguments.galley)?;
    let mode = match (arguments.short, arguments.quick) {
        (true, _) => RunMode::Short,
        (false, true) => RunMode::Quick,
        (false, false) => RunMode::Full,
    };
    let interrupt = Interrupt::listen()?;
    raise_descriptor_limit();
    print_progress("starting MariaDB and WordPress");
    let environment = SeedsEnvironment::start(EnvironmentSettings {
        mode,
        galley,
        plugin: &arguments.plugin,
        interrupt,
    })?;
    let (results, mut failures) = run_articles(&environment, &articles)?;
    drop(environment);
    let is_complete = articles.len() == ARTICLES.len() && failures.is_empty();
    if is_complete && mode != RunMode::Short {
        write_pages(&arguments.repository, &results)?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&results)?);
    } else {
        print!(
            "{}{}",
            page::summary(&results),
            page::details(&results, ARTICLES)
        );
    }
    failures.extend(results.failures());
    for failure in &failures {
        print_progress(failure);
    }
    match failures.len() {
        0 => Ok(()),
        count => Err(format!("{count} failures: see above").into()),
    }
}

fn selected_articles(only: &[usize]) -> Result<Vec<&'static Article>, CommandError> {
    if only.is_empty() {
        return Ok(ARTICLES.iter().collect());
    }
    let find = |number: &usize| {
        let article = ARTICLES.iter().find(|article| article.number == *number);
        article.ok_or_else(|| {
            let all = ARTICLES.len();
            UsageError::new(format!("unknown article `{number}`: give 1 to {all}")).into()
        })
    };
    only.iter().map(find).collect()
}

/// Runs the articles. Also returns the errors of those that could not be measured.
fn run_articles(
    environment: &SeedsEnvironment,
    articles: &[&'static Article],
) -> Result<(SeedsResults, Vec<String>), CommandError> {
    let mut placeholders = Placeholders::new();
    placeholders.set("galley", environment.galley.display());
    let machine = Machine::read(&programs(), &placeholders, &environment.cores)?;
    let mut results = SeedsResults {
        machine,
        is_quick: environment.mode == RunMode::Quick,
        others_share: 0.0,
        articles: Vec::new(),
    };
    let mut failures = Vec::new();
    for article in articles {
        match run_article(environment, article, &mut results.others_share) {
            Ok(article) => results.articles.push(article),
            Err(error) => {
                environment.interrupt.check()?;
                failures.push(format!("article {}: {error}", article.number));
            }
        }
    }
    Ok((results, failures))
}

fn run_article(
    environment: &SeedsEnvironment,
    article: &'static Article,
    others_share: &mut f64,
) -> Result<ArticleResults, CommandError> {
    let started = Instant::now();
    print_progress(&format!("article {}: {}", article.number, article.title));
    let is_selected = |role: Role| match environment.mode {
        RunMode::Full | RunMode::Quick => true,
        RunMode::Short => matches!(role, Role::Final | Role::Galley),
    };
    let mut stacks = Vec::new();
    for plan in article.stacks.iter().filter(|plan| is_selected(plan.role)) {
        environment.interrupt.check()?;
        stacks.push(Stack::start(environment, plan)?);
    }
    let mut lines = Vec::new();
    if environment.mode != RunMode::Short {
        for plan in article.lines {
            print_progress(&format!(
                "  ab {}: {}",
                plan.arguments.join(" "),
                plan.title
            ));
            let line = ab_line::measure(environment, plan, &stacks, others_share)?;
            print_ab_line(&line);
            lines.push(line);
        }
    }
    let problems = check_problems(environment, article, &mut stacks, &lines)?;
    print_progress(&format!("  took {} s", started.elapsed().as_secs()));
    Ok(ArticleResults {
        number: article.number,
        name: article.name,
        lines,
        problems,
    })
}

/// Schedules a post if the article has that problem. It is due after all other checks.
fn schedule_post(
    environment: &SeedsEnvironment,
    article: &Article,
    stacks: &[Stack],
) -> Result<Option<ScheduledPost>, CommandError> {
    let is_needed = article
        .problems
        .iter()
        .any(|problem| problem.probe == Probe::Scheduled);
    let galley = stacks.iter().find(|stack| stack.is_galley());
    let stack = galley.filter(|_| is_needed && environment.mode != RunMode::Short);
    stack
        .map(|stack| ScheduledPost::create(environment, stack))
        .transpose()
}

fn check_problems(
    environment: &SeedsEnvironment,
    article: &Article,
    stacks: &mut [Stack],
    lines: &[AbLineResult],
) -> Result<Vec<ProblemResult>, CommandError> {
    let scheduled = schedule_post(environment, article, stacks)?;
    let mut results = Vec::new();
    for problem in article.problems {
        let verdicts = match (problem.probe, &scheduled) {
            (Probe::Scheduled, None) => continue,
            (Probe::Scheduled, Some(scheduled)) => {
                let verdicts = scheduled.watch(environment, stacks)?;
                let each = stacks.iter().zip(verdicts);
                each.map(|(stack, verdict)| stack_verdict(stack, verdict))
                    .collect()
            }
            _ => run_probe(environment, problem.probe, stacks, lines)?,
        };
        if !verdicts.is_empty() {
            print_problem(problem, &verdicts);
            results.push(ProblemResult {
                requirement: problem.requirement,
                verdicts,
            });
        }
    }
    Ok(results)
}

fn run_probe(
    environment: &SeedsEnvironment,
    probe: Probe,
    stacks: &mut [Stack],
    lines: &[AbLineResult],
) -> Result<Vec<StackVerdict>, CommandError> {
    let mut verdicts = Vec::new();
    for stack in stacks {
        if let Some(verdict) = check(probe, environment, stack, lines)? {
            if stack.is_galley() && !verdict.passed {
                print_progress(&format!(
                    "  the logs of PHP and Galley:\n{}",
                    stack.log_tail()
                ));
            }
            verdicts.push(stack_verdict(stack, verdict));
        }
    }
    Ok(verdicts)
}

fn stack_verdict(stack: &Stack, verdict: ProbeVerdict) -> StackVerdict {
    StackVerdict {
        stack: stack.plan.title,
        role: stack.plan.role,
        verdict,
    }
}

fn print_progress(text: &str) {
    eprintln!("seeds: {text}");
}

fn print_ab_line(line: &AbLineResult) {
    for row in &line.rows {
        let median = |spread: Option<galley_testkit::Quartiles>| {
            spread.map_or("-".to_owned(), |spread| {
                crate::bench::rounded(spread.median)
            })
        };
        print_progress(&format!(
            "    {}: {} requests/s, {} us CPU each, {:.0} MB, {} failed",
            row.stack,
            median(row.per_second),
            median(row.cpu_us),
            row.memory_mb,
            row.failed
        ));
    }
}

fn print_problem(problem: &Problem, verdicts: &[StackVerdict]) {
    print_progress(&format!("  {}", problem.requirement));
    for it in verdicts {
        let word = if it.verdict.passed { "pass" } else { "FAIL" };
        print_progress(&format!("    {}: {word}, {}", it.stack, it.verdict.detail));
    }
}

/// Writes the summary, the details and the charts.
fn write_pages(repository: &Path, results: &SeedsResults) -> Result<(), CommandError> {
    let images = repository.join("docs/images");
    fs::create_dir_all(&images)?;
    for (name, svg) in page::charts(results, ARTICLES) {
        fs::write(images.join(name), svg)?;
    }
    for (name, text) in [
        ("docs/seeds.md", page::summary(results)),
        ("bench/seeds.md", page::details(results, ARTICLES)),
    ] {
        let file = repository.join(name);
        fs::write(&file, text)?;
        print_progress(&format!("written: {}", file.display()));
    }
    Ok(())
}

/// The programs whose versions the page names, each with the command that prints the version.
fn programs() -> BTreeMap<String, Vec<String>> {
    let programs: [(&str, &[&str]); 7] = [
        ("galley", &["{{galley}}", "--version"]),
        ("nginx", &["nginx", "-v"]),
        ("varnish", &["varnishd", "-V"]),
        ("httpd", &["apache2", "-v"]),
        ("php", &["php", "-v"]),
        ("mariadb", &["mariadbd", "--version"]),
        ("ab", &["ab", "-V"]),
    ];
    let commands = programs.map(|(name, line)| {
        let line = line.iter().map(|word| (*word).to_owned());
        (name.to_owned(), line.collect())
    });
    BTreeMap::from(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn articles_are_selected_by_number() {
        assert_eq!(selected_articles(&[]).unwrap().len(), 5);
        let two: Vec<usize> = selected_articles(&[4, 2])
            .unwrap()
            .iter()
            .map(|it| it.number)
            .collect();
        assert_eq!(two, [4, 2]);
        let error = selected_articles(&[6]).unwrap_err();
        assert!(error.is::<UsageError>(), "{error}");
    }
}
