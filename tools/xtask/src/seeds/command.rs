//! The command line, and the run: article after article, each with its stacks started anew.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use super::{
    article::{Article, Probe, Role, TroublePlan},
    articles::ARTICLES,
    line,
    outcome::{ArticleOutcome, LineOutcome, Outcome, StackVerdict, TroubleOutcome, Verdict},
    page,
    probe::{Scheduled, check},
    stack::Stack,
    stage::{Form, Setting, Stage},
};
use crate::{
    bench::{Interrupt, Machine, Misuse, Words, found, raise_limit},
    demo::CommandError,
};

/// What the command line says.
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
    /// Fewer requests: five minutes
    #[arg(long)]
    quick: bool,
    /// The form that `make test` runs: no figures, and only what the author ended with beside Galley
    #[arg(long, conflicts_with = "quick")]
    short: bool,
    /// Everything that was found, as JSON, in place of the tables
    #[arg(long)]
    json: bool,
    /// Where a run of all articles writes its page and charts
    #[arg(long, value_name = "FOLDER", default_value = "docs")]
    docs: PathBuf,
}

/// Measures, writes and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let articles = wanted(&arguments.only)?;
    let galley = found(&arguments.galley)?;
    let form = match (arguments.short, arguments.quick) {
        (true, _) => Form::Short,
        (false, true) => Form::Quick,
        (false, false) => Form::Full,
    };
    let interrupt = Interrupt::listen()?;
    raise_limit();
    tell("starting MariaDB and WordPress");
    let stage = Stage::start(Setting {
        form,
        galley,
        plugin: &arguments.plugin,
        interrupt,
    })?;
    let (outcome, failures) = measured(&stage, &articles)?;
    drop(stage);
    let is_whole = articles.len() == ARTICLES.len() && failures.is_empty();
    if is_whole && form != Form::Short {
        write(&arguments.docs, &outcome)?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&outcome)?);
    } else {
        print!("{}", page::markdown(&outcome, ARTICLES));
    }
    let mut complaints = failures;
    complaints.extend(outcome.complaints());
    for complaint in &complaints {
        tell(complaint);
    }
    match complaints.len() {
        0 => Ok(()),
        count => Err(format!("{count} complaints: see above").into()),
    }
}

fn wanted(only: &[usize]) -> Result<Vec<&'static Article>, CommandError> {
    if only.is_empty() {
        return Ok(ARTICLES.iter().collect());
    }
    let find = |number: &usize| {
        let article = ARTICLES.iter().find(|article| article.number == *number);
        article.ok_or_else(|| {
            let all = ARTICLES.len();
            Misuse::new(format!("no article `{number}`: say 1 to {all}")).into()
        })
    };
    only.iter().map(find).collect()
}

/// All articles; what could not be measured is named beside.
fn measured(
    stage: &Stage,
    articles: &[&'static Article],
) -> Result<(Outcome, Vec<String>), CommandError> {
    let mut words = Words::new();
    words.set("galley", stage.galley.display());
    let machine = Machine::look(&programs(), &words, &stage.cores)?;
    let mut outcome = Outcome {
        machine,
        is_quick: stage.form == Form::Quick,
        others: 0.0,
        articles: Vec::new(),
    };
    let mut failures = Vec::new();
    for article in articles {
        match one(stage, article, &mut outcome.others) {
            Ok(article) => outcome.articles.push(article),
            Err(complaint) => {
                stage.interrupt.check()?;
                failures.push(format!("article {}: {complaint}", article.number));
            }
        }
    }
    Ok((outcome, failures))
}

fn one(
    stage: &Stage,
    article: &'static Article,
    others: &mut f64,
) -> Result<ArticleOutcome, CommandError> {
    let began = Instant::now();
    tell(&format!("article {}: {}", article.number, article.title));
    let is_wanted = |role: Role| match stage.form {
        Form::Full | Form::Quick => true,
        Form::Short => matches!(role, Role::Final | Role::Galley),
    };
    let mut stacks = Vec::new();
    for plan in article.stacks.iter().filter(|plan| is_wanted(plan.role)) {
        stage.interrupt.check()?;
        stacks.push(Stack::start(stage, plan)?);
    }
    let mut lines = Vec::new();
    if stage.form != Form::Short {
        for plan in article.lines {
            tell(&format!(
                "  ab {}: {}",
                plan.arguments.join(" "),
                plan.title
            ));
            let line = line::measure(stage, plan, &stacks, others)?;
            tell_line(&line);
            lines.push(line);
        }
    }
    let troubles = troubles(stage, article, &mut stacks, &lines)?;
    tell(&format!("  took {} s", began.elapsed().as_secs()));
    Ok(ArticleOutcome {
        number: article.number,
        name: article.name,
        lines,
        troubles,
    })
}

/// Schedules a post, where the author cared for that: it is due when everything else was checked.
fn scheduled(
    stage: &Stage,
    article: &Article,
    stacks: &[Stack],
) -> Result<Option<Scheduled>, CommandError> {
    let cares = article
        .troubles
        .iter()
        .any(|trouble| trouble.probe == Probe::Scheduled);
    let galley = stacks.iter().find(|stack| stack.is_galley());
    let stack = galley.filter(|_| cares && stage.form != Form::Short);
    stack.map(|stack| Scheduled::plan(stage, stack)).transpose()
}

fn troubles(
    stage: &Stage,
    article: &Article,
    stacks: &mut [Stack],
    lines: &[LineOutcome],
) -> Result<Vec<TroubleOutcome>, CommandError> {
    let scheduled = scheduled(stage, article, stacks)?;
    let mut outcomes = Vec::new();
    for plan in article.troubles {
        let verdicts = match (plan.probe, &scheduled) {
            (Probe::Scheduled, None) => continue,
            (Probe::Scheduled, Some(scheduled)) => {
                let verdicts = scheduled.look(stage, stacks)?;
                let each = stacks.iter().zip(verdicts);
                each.map(|(stack, verdict)| of(stack, verdict)).collect()
            }
            _ => checked(stage, plan, stacks, lines)?,
        };
        if !verdicts.is_empty() {
            tell_trouble(plan, &verdicts);
            outcomes.push(TroubleOutcome {
                words: plan.words,
                verdicts,
            });
        }
    }
    Ok(outcomes)
}

fn checked(
    stage: &Stage,
    plan: &TroublePlan,
    stacks: &mut [Stack],
    lines: &[LineOutcome],
) -> Result<Vec<StackVerdict>, CommandError> {
    let mut verdicts = Vec::new();
    for stack in stacks {
        if let Some(verdict) = check(plan.probe, stage, stack, lines)? {
            if stack.is_galley() && !verdict.passed {
                tell(&format!(
                    "  Galley and its PHP have said:\n{}",
                    stack.said()
                ));
            }
            verdicts.push(of(stack, verdict));
        }
    }
    Ok(verdicts)
}

fn of(stack: &Stack, verdict: Verdict) -> StackVerdict {
    StackVerdict {
        stack: stack.plan.title,
        role: stack.plan.role,
        verdict,
    }
}

fn tell(what: &str) {
    eprintln!("seeds: {what}");
}

fn tell_line(line: &LineOutcome) {
    for row in &line.rows {
        let median = |spread: Option<galley_testkit::Spread>| {
            spread.map_or("-".to_owned(), |spread| {
                crate::bench::rounded(spread.median)
            })
        };
        tell(&format!(
            "    {}: {} requests/s, {} us CPU each, {:.0} MB, {} failed",
            row.stack,
            median(row.per_second),
            median(row.cpu_us),
            row.memory_mb,
            row.failed
        ));
    }
}

fn tell_trouble(plan: &TroublePlan, verdicts: &[StackVerdict]) {
    tell(&format!("  {}", plan.words));
    for one in verdicts {
        let word = if one.verdict.passed { "pass" } else { "FAIL" };
        tell(&format!(
            "    {}: {word}, {}",
            one.stack, one.verdict.detail
        ));
    }
}

/// The page and its charts.
fn write(docs: &Path, outcome: &Outcome) -> Result<(), CommandError> {
    let images = docs.join("images");
    fs::create_dir_all(&images)?;
    for (name, svg) in page::charts(outcome, ARTICLES) {
        fs::write(images.join(name), svg)?;
    }
    let file = docs.join("seeds.md");
    fs::write(&file, page::markdown(outcome, ARTICLES))?;
    tell(&format!("written: {}", file.display()));
    Ok(())
}

/// Whose versions the page names: each with the command that prints it.
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
    let owned = programs.map(|(name, line)| {
        let line = line.iter().map(|word| (*word).to_owned());
        (name.to_owned(), line.collect())
    });
    BTreeMap::from(owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn articles_are_named_by_number() {
        assert_eq!(wanted(&[]).unwrap().len(), 5);
        let two: Vec<usize> = wanted(&[4, 2])
            .unwrap()
            .iter()
            .map(|it| it.number)
            .collect();
        assert_eq!(two, [4, 2]);
        let refused = wanted(&[6]).unwrap_err();
        assert!(refused.is::<Misuse>(), "{refused}");
    }
}
