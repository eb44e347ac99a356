//! Proves by the server's system calls, recorded with `strace`, that a purge is on the disk before it is acknowledged.

use super::{
    FaultSettings, TestLength, purge_trace,
    purges::{Editor, PurgeMethod, random_scope},
    random::Random,
    report::FaultReport,
    site_content::{Lengths, SiteContent},
    test_site::{SiteOptions, TestSite},
};
use crate::{Strace, TestkitError};

pub(super) fn run(settings: &FaultSettings) -> Result<FaultReport, TestkitError> {
    let purges = match settings.length {
        TestLength::Short => 12,
        TestLength::Long => 120,
    };
    let lengths = Lengths {
        usual: 100..2_000,
        long_every: 50,
        long: 2_000..3_000,
        last: Vec::new(),
    };
    let content = SiteContent::new(50, settings.seed, &lengths);
    let mut report = FaultReport::default();
    let mut site = TestSite::new(&settings.galley, content, &SiteOptions::default())?;
    site.start()?;
    report += site.compare()?;
    let calls = format!("trace={}", purge_trace::calls());
    let arguments = ["-y", "-s", "40", "-e", &calls];
    let attached = Strace::attach(site.galley()?.pid(), site.scratch.path(), &arguments);
    let tracer = match attached {
        Ok(tracer) => tracer,
        Err(why) => {
            report.skip(&format!("strace: {why}"));
            return Ok(report);
        }
    };
    let mut random = Random::new(settings.seed);
    let mut editor = Editor::new(&site)?;
    for number in 0..purges {
        // Sequential purges cannot share a sync.
        let method = PurgeMethod::ALL[number % PurgeMethod::ALL.len()];
        editor.edit(&site, random_scope(&mut random, 50), method)?;
        report.purges += 1;
        report.rounds += 1;
    }
    let text = tracer.finish()?;
    let summary = purge_trace::read(&text, &site.log_file().display().to_string());
    report.require(
        summary.responses == purges,
        &format!(
            "the trace shows {} responses to {purges} purges",
            summary.responses
        ),
    );
    for _ in 0..summary.early {
        report.broken("a response to a purge was sent before fdatasync returned");
    }
    report.measurement(format!(
        "{} responses to purges, {} sent before fdatasync of the log returned; {} syncs",
        summary.responses, summary.early, summary.syncs
    ));
    report += site.compare()?;
    Ok(report)
}
