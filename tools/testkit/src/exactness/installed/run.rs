//! Installs the plugins, finds the pages, and runs the events.

use std::{fs, path::PathBuf, time::Duration};

use super::{
    crawl::find_pages,
    events::{EventScript, SETUP, event_scripts},
    install::install,
};
use crate::{
    TestkitError,
    client::Request,
    error::Context,
    exactness::{
        EventReport, ExactnessReport, ExactnessSettings, Progress, PurgeMethod,
        editor::Editor,
        page_set::ComparedPages,
        script::{End, run_script},
        test_site::{ExactnessSite, HOST},
    },
};

/// The plugins, themes and events of a run.
#[derive(Debug, Clone)]
pub struct InstalledSettings {
    /// The server binary.
    pub galley: PathBuf,
    /// Folder of our plugin.
    pub plugin: PathBuf,
    /// The purge methods to compare: our plugin and none.
    pub methods: Vec<PurgeMethod>,
    /// Folder with plugins and themes.
    pub plugins: PathBuf,
    /// Folder with PHP scripts: one edit each, and `setup.php`.
    pub events: PathBuf,
    /// Maximum number of pages to compare.
    pub pages: usize,
}

/// The results of a run.
#[derive(Debug, Clone)]
pub struct InstalledReport {
    /// The results of the events.
    pub report: ExactnessReport,
    /// Names and versions of the plugins and of the theme.
    pub active: Vec<String>,
    /// Pages that were left out, because they differ without an edit.
    pub varying: Vec<String>,
}

/// Runs the events and calls `progress` before each step and after each event.
///
/// # Errors
/// If a part does not start, WordPress does not activate a plugin, or a script fails.
pub fn run(
    settings: &InstalledSettings,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<InstalledReport, TestkitError> {
    let events = event_scripts(&settings.events)?;
    progress(Progress::Step(
        "starting MariaDB, WordPress, PHP-FPM and Galley",
    ));
    let site = ExactnessSite::start(&ExactnessSettings::for_scripts(
        &settings.galley,
        &settings.plugin,
        &settings.methods,
    ))?;
    progress(Progress::Step("activating plugins and theme"));
    let active = install(&site.wordpress, &settings.plugins)?;
    copy_scripts(&site, settings, &events)?;
    if settings.events.join("setup.php").is_file() {
        progress(Progress::Step("running setup.php"));
        site.wordpress.php(&format!(
            "wp_set_current_user( 1 ); Galley\\Exactness\\Scripts\\run('{SETUP}');"
        ))?;
    }
    let mut editor = Editor::log_in(&site, HOST)?;
    finish_installation(&mut editor)?;
    progress(Progress::Step("finding and generating the pages"));
    let targets = find_pages(&site, settings.pages)?;
    let mut pages = ComparedPages::new(&site, &settings.methods, targets, CORRECTION_LIMIT);
    pages.purge_all()?;
    let mut varying = pages.drop_varying()?;
    let mut report = ExactnessReport {
        pages: pages.targets.len(),
        events: Vec::new(),
        cost: None,
    };
    for (number, event) in events.iter().enumerate() {
        let event = run_event(&mut pages, &mut editor, event, &mut varying)?;
        progress(Progress::Event(&event, number + 1, events.len()));
        report.events.push(event);
    }
    Ok(InstalledReport {
        report,
        active,
        varying,
    })
}

/// Visits the administration until no plugin sends the administrator elsewhere: some plugins finish their installation at the first visit,
/// and one that redirects would replace the first event.
fn finish_installation(editor: &mut Editor<'_>) -> Result<(), TestkitError> {
    for page in ["/wp-admin/", "/wp-admin/edit.php", "/wp-admin/plugins.php"] {
        for _ in 0..MAX_REDIRECTS {
            if editor.send(Request::get(page))?.status == 200 {
                break;
            }
        }
    }
    Ok(())
}

fn copy_scripts(
    site: &ExactnessSite,
    settings: &InstalledSettings,
    events: &[EventScript],
) -> Result<(), TestkitError> {
    let dir = site.scripts_dir();
    fs::create_dir_all(&dir).context("create the folder of scripts")?;
    let setup = settings.events.join("setup.php");
    let files = events.iter().map(|event| &event.file);
    for file in files.chain(setup.is_file().then_some(&setup)) {
        let target = dir.join(file.file_name().unwrap_or_default());
        fs::copy(file, target).context(format_args!("copy {}", file.display()))?;
    }
    Ok(())
}

fn run_event(
    pages: &mut ComparedPages<'_>,
    editor: &mut Editor<'_>,
    event: &EventScript,
    varying: &mut Vec<String>,
) -> Result<EventReport, TestkitError> {
    let failed = |error: TestkitError| {
        let (name, log) = (&event.name, editor.site.log());
        TestkitError::Refused(format!("event `{name}`: {error}\n{log}"))
    };
    let warm = if let Ok(warm) = pages.warm() {
        warm
    } else {
        // Time has changed a page since the last event.
        pages.purge_all()?;
        varying.extend(pages.drop_varying()?);
        pages.warm().map_err(failed)?
    };
    run_script(editor, event.via, End::Normal, &event.name)
        .map_err(|error| TestkitError::Refused(format!("event `{}`: {error}", event.name)))?;
    let first = pages.fetch_first()?;
    let effect = pages.compare(&warm, &first)?;
    Ok(EventReport {
        name: event.name.clone().into(),
        description: event.description.clone().into(),
        interface: event.via.name(),
        theme: "installed",
        pages: pages.targets.len(),
        hits: warm.hit_count(),
        counts: effect.counts,
    })
}

/// A page that is still stale after this time counts as never correct.
const CORRECTION_LIMIT: Duration = Duration::from_secs(3);

/// More plugins do not redirect after one another.
const MAX_REDIRECTS: usize = 5;
