//! Runs the edits of each plugin and counts stale pages by kind.

use std::{fs, thread, time::Duration};

use super::{
    Kind, StaleCase, WriteCounts,
    plugin::{Edit, GeneratedPlugin},
    report::{CORE_PAGE, GeneratedReport, GeneratedSettings},
    sections::Sections,
    site::{GeneratedSite, OwnedPage},
};
use crate::{
    TestkitError,
    error::Context,
    exactness::{
        FindingKind, PageFinding, PurgeMethod,
        editor::Editor,
        fetch_pages::{FetchedPage, fetch_pages},
        page_set::{ComparedPages, EditEffect, FirstResponses},
        script::{End, run_script},
        test_site::{ExactnessSite, HOST, UNCACHED_HOST},
    },
    wait::poll_until,
};

/// Runs the edits of all plugins; calls `progress` with a line of text now and then.
///
/// # Errors
/// If a part does not start, a plugin or an edit does not work, or a page differs between two generations without an edit.
pub fn run(
    settings: &GeneratedSettings,
    progress: &mut dyn FnMut(&str),
) -> Result<GeneratedReport, TestkitError> {
    progress("starting MariaDB, WordPress, PHP-FPM and Galley");
    let site = GeneratedSite::start(settings)?;
    let mut editor = Editor::log_in(&site.site, HOST)?;
    site.keep_database()?;
    let mut runner = PluginRunner {
        site: &site,
        settings,
        editor: &mut editor,
        report: GeneratedReport {
            seed: settings.seed,
            totals: vec![WriteCounts::default(); settings.methods.len()],
            ..GeneratedReport::default()
        },
    };
    let count = settings.edits.div_ceil(EDITS_PER_PLUGIN);
    for number in 0..count {
        if settings.only_plugin.is_some_and(|only| only != number) {
            continue;
        }
        let left = settings.edits - number * EDITS_PER_PLUGIN;
        let known = runner.report.cases.len();
        runner.run_plugin(number, left.min(EDITS_PER_PLUGIN))?;
        for case in runner.report.cases.iter().skip(known) {
            let (edit, page, read) = (case.edit, &case.page, case.kind.read);
            progress(&format!(
                "plugin {number}, edit {edit}: {page} is stale ({read} after {})",
                case.edit_shape
            ));
        }
        let total = runner.report.totals.first().copied().unwrap_or_default();
        progress(&format!(
            "plugin {number} of {count}: {} edits, {} pages changed, {} stale",
            runner.report.edits, total.changed, total.stale
        ));
    }
    runner.repeat_cases()?;
    Ok(runner.report)
}

struct PluginRunner<'r, 's> {
    site: &'s GeneratedSite,
    settings: &'r GeneratedSettings,
    editor: &'r mut Editor<'s>,
    report: GeneratedReport,
}

/// A plugin on its site, with its pages.
struct LoadedPlugin<'s> {
    plugin: GeneratedPlugin,
    owned: Vec<OwnedPage>,
    pages: ComparedPages<'s>,
}

/// What an edit has done.
struct EditOutcome {
    /// Indexes of pages with the parts that changed, for the first purge method.
    parts: Vec<(usize, ChangedPart)>,
    effect: EditEffect,
    /// Pages that were hits before it.
    hits: usize,
}

/// A part of a page that an edit changed.
struct ChangedPart {
    kind: Kind,
    is_stale: bool,
}

impl<'s> PluginRunner<'_, 's> {
    fn run_plugin(&mut self, number: usize, edits: usize) -> Result<(), TestkitError> {
        let plugin = GeneratedPlugin::new(self.settings.seed, number);
        let only = self.settings.only_edit;
        let edits: Vec<Edit> = (0..edits)
            .filter(|edit| only.is_none_or(|only| only == *edit))
            .map(|edit| plugin.edit(edit))
            .collect();
        let mut loaded = self.load(plugin, &edits)?;
        self.report.plugins += 1;
        self.report.pages = self.report.pages.max(loaded.pages.targets.len());
        for (index, edit) in edits.iter().enumerate() {
            let outcome = self.run_edit(&mut loaded, edit)?;
            if index == 0 && outcome.hits < loaded.pages.targets.len() {
                self.report.not_stored.extend(pages_not_stored(&loaded)?);
            }
            self.count(&loaded, edit, &outcome);
        }
        Ok(())
    }

    fn load(
        &mut self,
        plugin: GeneratedPlugin,
        edits: &[Edit],
    ) -> Result<LoadedPlugin<'s>, TestkitError> {
        let owned = self.site.load(&plugin, edits)?;
        let targets = owned.iter().map(|page| page.target.clone()).collect();
        // A page that is stale is counted and purged at once.
        let mut pages = ComparedPages::new(
            &self.site.site,
            &self.settings.methods,
            targets,
            Duration::ZERO,
        );
        pages.takes_generated = true;
        pages.purge_all()?;
        // The first edit finds a page that varies by itself: it compares the stored pages with these.
        pages.reference = pages.fetch(UNCACHED_HOST)?;
        Ok(LoadedPlugin {
            plugin,
            owned,
            pages,
        })
    }

    /// Runs an edit.
    fn run_edit(
        &mut self,
        loaded: &mut LoadedPlugin<'s>,
        edit: &Edit,
    ) -> Result<EditOutcome, TestkitError> {
        let site = &self.site.site;
        let failed = |error: TestkitError| {
            let (number, shape, log) = (edit.number, edit.shape(), site.log());
            in_plugin(
                &loaded.plugin,
                &format!("edit {number}, {shape}: {error}\n{log}"),
            )
        };
        let warm = if let Ok(warm) = loaded.pages.warm() {
            warm
        } else {
            // The edit before it, such as one that died, can leave WordPress with caches that fill differently.
            self.report.drifts += 1;
            loaded.pages.purge_all()?;
            loaded.pages.fetch_reference()?;
            loaded.pages.warm().map_err(failed)?
        };
        self.make_edit(&loaded.plugin, edit).map_err(failed)?;
        if edit.end == End::Killed && self.settings.methods.contains(&PurgeMethod::Galley) {
            wait_for_repair(site)?;
        }
        let first = loaded.pages.fetch_first()?;
        let effect = loaded.pages.compare(&warm, &first)?;
        let parts = changed_parts(loaded, edit, &effect.before, &first);
        Ok(EditOutcome {
            parts,
            effect,
            hits: warm.hit_count(),
        })
    }

    fn make_edit(&mut self, plugin: &GeneratedPlugin, edit: &Edit) -> Result<(), TestkitError> {
        let script = plugin.script_name(edit);
        let reader = plugin.readers.get(edit.reader);
        let held = reader
            .filter(|_| edit.overlaps && self.settings.methods.contains(&PurgeMethod::Galley))
            .map(|reader| plugin.page_of(reader, edit.n));
        match held {
            None => run_script(self.editor, edit.via, edit.end, &script),
            Some(page) => self.edit_during(&page, edit, &script),
        }
    }

    /// Makes the edit while PHP generates this page and has read what it shows.
    fn edit_during(&mut self, page: &str, edit: &Edit, script: &str) -> Result<(), TestkitError> {
        let site = &self.site.site;
        let notes = site.notes_dir();
        let (hold, held) = (notes.join("hold"), notes.join("held"));
        site.purge(PurgeMethod::Galley, &[page.to_owned()])?;
        fs::write(&hold, page).context("hold a page")?;
        let editor = &mut *self.editor;
        thread::scope(|scope| {
            let visitor = scope.spawn(|| fetch_pages(site.addr(), HOST, &[page]));
            // A page that another setting of WordPress answers never gets there.
            poll_until(HOLD_TIMEOUT, || held.exists() || visitor.is_finished());
            let result = run_script(editor, edit.via, edit.end, script);
            fs::remove_file(&hold).context("let a page go")?;
            let fetched = visitor
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            if held.exists() {
                fs::remove_file(&held).context("forget the held page")?;
            }
            result.and(fetched).map(drop)
        })
    }

    fn count(&mut self, loaded: &LoadedPlugin<'s>, edit: &Edit, outcome: &EditOutcome) {
        let EditOutcome { parts, effect, .. } = outcome;
        let report = &mut self.report;
        report.edits += 1;
        for (total, counts) in report.totals.iter_mut().zip(&effect.counts) {
            total.add(&pages(counts));
        }
        let Some(counts) = effect.counts.first() else {
            return;
        };
        report.edits_without_effect += usize::from(counts.changed == 0);
        let write = report.writes.entry(edit.write.name).or_default();
        write.add(&pages(counts));
        let mut kinds: Vec<Kind> = parts.iter().map(|(_, part)| part.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            report.kinds.entry(kind).or_default().edits += 1;
        }
        for (page, part) in parts {
            let sum = report.kinds.entry(part.kind).or_default();
            sum.changed += 1;
            sum.stale += usize::from(part.is_stale);
            if part.is_stale {
                let target = loaded.pages.targets.get(*page);
                report.cases.push(stale_case(
                    loaded,
                    edit,
                    part.kind,
                    target,
                    &counts.findings,
                ));
            }
        }
    }

    /// Runs each of the first edits with a stale page alone, on a site in its original state.
    fn repeat_cases(&mut self) -> Result<(), TestkitError> {
        let cases = self.report.cases.iter();
        let mut edits: Vec<(usize, usize)> = cases.map(|case| (case.plugin, case.edit)).collect();
        edits.dedup();
        edits.truncate(MAX_REPEATED);
        for (number, edit) in edits {
            let plugin = GeneratedPlugin::new(self.settings.seed, number);
            let only = [plugin.edit(edit)];
            let mut loaded = self.load(plugin, &only)?;
            let [only] = &only;
            let EditOutcome { parts, .. } = self.run_edit(&mut loaded, only)?;
            for case in &mut self.report.cases {
                if (case.plugin, case.edit) == (number, edit) {
                    let stale = parts.iter().filter(|(_, part)| part.is_stale);
                    case.occurs_alone = Some(stale.into_iter().any(|(_, it)| it.kind == case.kind));
                }
            }
        }
        Ok(())
    }
}

/// Waits until a request of PHP has purged what a request that was killed may have changed. Before that, pages may be stale.
fn wait_for_repair(site: &ExactnessSite) -> Result<(), TestkitError> {
    thread::sleep(REPAIR_TIME);
    fetch_pages(site.addr(), UNCACHED_HOST, &["/"]).map(drop)
}

/// The pages that are no hits, each with its `Cache-Status`.
fn pages_not_stored(loaded: &LoadedPlugin<'_>) -> Result<Vec<String>, TestkitError> {
    let method = loaded.pages.methods.first();
    let fetched = loaded
        .pages
        .fetch(method.map_or(HOST, |method| method.host()))?;
    let pairs = loaded.pages.targets.iter().zip(fetched);
    Ok(pairs
        .filter(|(_, page)| !page.is_hit)
        .map(|(target, page)| format!("{target} ({})", page.cache_status))
        .collect())
}

/// The changed and the stale parts of each page, for the first purge method.
fn changed_parts(
    loaded: &LoadedPlugin<'_>,
    edit: &Edit,
    before: &[FetchedPage],
    first: &FirstResponses,
) -> Vec<(usize, ChangedPart)> {
    let Some(first) = first.pages.first() else {
        return Vec::new();
    };
    let mut parts = Vec::new();
    let rows = before.iter().zip(first.iter().zip(&loaded.pages.reference));
    for (page, (before, (first, after))) in rows.enumerate() {
        let [before, first, after] = [before, first, after].map(|page| Sections::of(&page.content));
        let owner = loaded
            .owned
            .get(page)
            .map_or("core", |it| it.owner.as_str());
        let changed = parts_that_differ(&before, &after, owner);
        let stale = parts_that_differ(&first, &after, owner);
        let mut all = changed;
        all.extend(&stale);
        all.sort_unstable();
        all.dedup();
        for id in all {
            let kind = kind_of(&loaded.plugin, id, edit);
            let is_stale = stale.contains(&id);
            parts.push((page, ChangedPart { kind, is_stale }));
        }
    }
    parts
}

/// The readers that show something else; `core` if the rest of the page differs.
fn parts_that_differ<'a>(one: &Sections<'a>, other: &Sections<'a>, owner: &'a str) -> Vec<&'a str> {
    let mut parts = one.differing_readers(other);
    if one.differs_elsewhere(other) {
        // The marks of a reader are not visible in a sitemap, which has nothing else.
        let is_whole = !one.has_readers() && !other.has_readers();
        parts.push(if is_whole { owner } else { "core" });
    }
    parts
}

fn kind_of(plugin: &GeneratedPlugin, id: &str, edit: &Edit) -> Kind {
    let reader = plugin.readers.iter().find(|reader| reader.id == id);
    Kind {
        read: reader.map_or(CORE_PAGE, |reader| reader.read.name),
        place: reader.map_or("core", |reader| reader.place),
        write: edit.write.name,
        when: edit.when(),
    }
}

fn stale_case(
    loaded: &LoadedPlugin<'_>,
    edit: &Edit,
    kind: Kind,
    page: Option<&String>,
    findings: &[PageFinding],
) -> StaleCase {
    let page = page.cloned().unwrap_or_default();
    let finding = findings
        .iter()
        .find(|finding| finding.kind == FindingKind::Stale && finding.page == page);
    StaleCase {
        kind,
        plugin: loaded.plugin.number,
        edit: edit.number,
        plugin_shape: loaded.plugin.shape(),
        edit_shape: edit.shape(),
        difference: finding
            .map(|finding| finding.difference.clone())
            .unwrap_or_default(),
        page,
        occurs_alone: None,
    }
}

fn pages(counts: &crate::exactness::PurgeCounts) -> WriteCounts {
    WriteCounts {
        edits: 1,
        changed: counts.changed,
        changed_hits: counts.changed_hits,
        stale: counts.stale,
        purged: counts.purged,
        overpurged: counts.overpurged,
    }
}

fn in_plugin(plugin: &GeneratedPlugin, text: &str) -> TestkitError {
    TestkitError::Refused(format!(
        "seed {}, plugin {} ({}): {text}",
        plugin.seed,
        plugin.number,
        plugin.shape()
    ))
}

const EDITS_PER_PLUGIN: usize = 15;
const HOLD_TIMEOUT: Duration = Duration::from_secs(10);
/// The plugin considers a request dead after three seconds by the clock of the database, which counts whole seconds.
const REPAIR_TIME: Duration = Duration::from_millis(4100);
/// Each takes some seconds.
const MAX_REPEATED: usize = 5;
