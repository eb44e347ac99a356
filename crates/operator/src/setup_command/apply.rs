//! Makes the changes. Each is written to the journal first. If one fails, the previous ones are undone.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::error::SetupError;
use super::ports::ListenPlan;
use super::report::SetupReport;
use super::survey::SetupFindings;
use super::undo::{self, SERVICE};
use super::units::{self, UnitChange};
use super::{consent::Consent, tools};
use crate::options::SetupOptions;
use crate::outcome::{runtime, talk};
use crate::setup::{
    HOOK_FILE, PhpChoice, SetupJournal, SetupPlan, SiteDraft, TlsChoice, UndoStep,
    certificate_copies, fetch_page, renewal_hook,
};

/// The changes to make.
pub(super) struct Change<'a> {
    pub(super) options: &'a SetupOptions,
    pub(super) survey: &'a SetupFindings,
    pub(super) plan: &'a SetupPlan,
    pub(super) listen: &'a ListenPlan,
    pub(super) consent: Consent,
    pub(super) start: Instant,
}

impl Change<'_> {
    /// Changes the machine. On failure, all changes of this run have been undone.
    pub(super) fn apply(
        &self,
        journal: &mut SetupJournal,
        report: &mut SetupReport,
    ) -> Result<(), SetupError> {
        let before = journal.steps().len();
        let done = self.steps(journal, report);
        if done.is_err() {
            talk("undoing what this run has changed");
            for line in undo::back_to(journal, before)? {
                talk(&line);
            }
        }
        done
    }

    fn certificates(
        &self,
        journal: &mut SetupJournal,
        report: &mut SetupReport,
    ) -> Result<(), SetupError> {
        for site in &self.plan.sites {
            if let TlsChoice::Certbot(name) = &site.tls {
                copy_certificate(journal, name)?;
                let action =
                    format!("copied the certificate of {name}; {HOOK_FILE} renews the copy");
                report.actions.push(action);
            }
        }
        Ok(())
    }

    fn steps(
        &self,
        journal: &mut SetupJournal,
        report: &mut SetupReport,
    ) -> Result<(), SetupError> {
        self.certificates(journal, report)?;
        let output = &self.options.output;
        let written = journal.write(output, &self.plan.configuration(), 0o644);
        written.map_err(|cause| SetupError::file("write", output, &cause))?;
        report.actions.push(format!("wrote {}", output.display()));
        galley_config::load(output).map_err(SetupError::Config)?;
        let is_served = self.serve(journal, report)?;
        if !self.options.no_plugin {
            self.plugins(journal, report, is_served);
        }
        if is_served {
            self.wait_for_hit(report)?;
        }
        Ok(())
    }

    /// Starts Galley; returns false if the user must do it.
    fn serve(
        &self,
        journal: &mut SetupJournal,
        report: &mut SetupReport,
    ) -> Result<bool, SetupError> {
        let is_possible = self.plan.has_package && units::is_there();
        if self.options.no_service || !is_possible {
            let file = self.options.output.display();
            report
                .to_do
                .push(format!("start Galley: galley run --config {file}"));
            return Ok(false);
        }
        if !self.consent.to("start Galley with this configuration?") {
            report
                .to_do
                .push("start Galley: systemctl restart galley".to_owned());
            return Ok(false);
        }
        if let Some(root) = self.survey.managed() {
            drop_in(journal, root)?;
        }
        units::enable(journal, SERVICE)?;
        match self.listen {
            ListenPlan::Sockets { stop } => {
                for unit in stop {
                    units::change(journal, unit, UnitChange::Stop)?;
                    report.actions.push(format!("stopped and disabled {unit}"));
                }
                let mut sockets = vec!["galley.socket"];
                sockets.extend(self.plan.has_tls().then_some("galley-tls.socket"));
                if !sockets.iter().all(|socket| units::is_active(socket)) {
                    // systemd opens no socket for a running service.
                    units::note(journal, SERVICE)?;
                    units::systemctl(&["stop", "--", SERVICE])?;
                }
                for socket in sockets {
                    units::change(journal, socket, UnitChange::Start)?;
                }
            }
            ListenPlan::Own { .. } => {
                for unit in ["galley.socket", "galley-tls.socket"] {
                    units::change(journal, unit, UnitChange::Stop)?;
                }
            }
        }
        units::change(journal, SERVICE, UnitChange::Restart)?;
        self.wait_for_server()?;
        report.actions.push(format!("started {SERVICE}"));
        Ok(true)
    }

    /// Waits for the server, because the token file must belong to the owner of its admin socket.
    fn wait_for_server(&self) -> Result<(), SetupError> {
        let deadline = Instant::now() + HIT_TIMEOUT;
        loop {
            match tools::galley(&["status"], &self.options.output) {
                Ok(_) => return Ok(()),
                Err(_) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                Err(why) => return Err(SetupError::Failed(why)),
            }
        }
    }

    /// Installs the plugin. A failure does not prevent Galley from serving.
    fn plugins(&self, journal: &mut SetupJournal, report: &mut SetupReport, is_served: bool) {
        let mut is_token_new = false;
        let mut to_do = |text: String| report.to_do.push(text);
        for site in &self.plan.sites {
            let root = site.root.display();
            if !self.consent.to(&format!("install the plugin into {root}?")) {
                to_do(format!("install the plugin: galley plugin install {root}"));
                continue;
            }
            match self.plugin(journal, site) {
                Ok(is_new) => {
                    is_token_new |= is_new;
                    let action = format!("installed the plugin into {root}");
                    report.actions.push(action);
                }
                Err(why) => to_do(format!("install the plugin into {root}: {why}")),
            }
        }
        if is_served && let Err(why) = self.begin_anew(is_token_new) {
            to_do(format!("galley reload && galley purge --all: {why}"));
        }
    }

    /// Purges everything, because pages from before the plugin have no tags.
    fn begin_anew(&self, is_token_new: bool) -> Result<(), String> {
        let output = &self.options.output;
        if is_token_new {
            tools::galley(&["reload"], output)?;
        }
        tools::galley(&["purge", "--all"], output).map(drop)
    }

    /// Installs the plugin into a WordPress. Returns whether a token was created.
    fn plugin(&self, journal: &mut SetupJournal, site: &SiteDraft) -> Result<bool, String> {
        let mut record = |step| journal.record(step).map_err(|error| error.to_string());
        let root = site.root.to_string_lossy();
        if !site.root.join("wp-content/plugins/galley").exists() {
            let root = site.root.clone();
            record(UndoStep::Plugin { root })?;
        }
        // The folder for tokens, next to the configuration file.
        let tokens = self.options.output.with_file_name("tokens");
        if !tokens.exists() {
            record(UndoStep::Made { path: tokens })?;
        }
        let install = ["plugin", "install", &root, "--site", site.host()];
        let done = tools::galley(&install, &self.options.output)?;
        let is_new = done["token_is_new"] == true;
        if let (true, Some(file)) = (is_new, done["token_file"].as_str()) {
            let path = PathBuf::from(file);
            record(UndoStep::Made { path })?;
        }
        if done["active"] == true {
            return Ok(is_new);
        }
        let why = done["active_why"].as_str();
        Err(why.unwrap_or("it is not active").to_owned())
    }

    /// Requests the front page until it is served from the cache.
    fn wait_for_hit(&self, report: &mut SetupReport) -> Result<(), SetupError> {
        let runtime = runtime().map_err(SetupError::Failed)?;
        for site in &self.plan.sites {
            let host = site.host();
            if site.tls == TlsChoice::Auto {
                report
                    .to_do
                    .push(format!("wait for the certificate of {host}: galley status"));
                continue;
            }
            let server = self.listen.endpoint(site.tls != TlsChoice::Off);
            let deadline = Instant::now() + HIT_TIMEOUT;
            loop {
                let page = runtime.block_on(fetch_page(server, host, "/"));
                let is_hit = |status: &String| status.contains("; hit");
                match &page {
                    Ok(page) if page.cache_status.as_ref().is_some_and(is_hit) => break,
                    _ if Instant::now() < deadline => std::thread::sleep(PAUSE),
                    Ok(page) => {
                        let status = page.cache_status.clone().unwrap_or_default();
                        return Err(SetupError::Failed(format!(
                            "{host}: the front page does not come from the cache (status {}, `{status}`)",
                            page.status
                        )));
                    }
                    Err(why) => return Err(SetupError::Failed(format!("{host}: {why}"))),
                }
            }
            report.first_hit.get_or_insert(self.start.elapsed());
        }
        Ok(())
    }
}

/// Creates a folder for the copies, certbot's hook, and the first copies.
fn copy_certificate(journal: &mut SetupJournal, name: &str) -> Result<(), SetupError> {
    let copies = certificate_copies(name);
    let folders = copies.cert.ancestors().skip(1).take(2).collect::<Vec<_>>();
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |cause: io::Error| SetupError::file("make", &path, &cause)
    };
    for folder in folders.iter().rev() {
        make_folder(journal, folder, 0o750).map_err(failed(folder))?;
        std::os::unix::fs::chown(folder, None, galley_group()).map_err(failed(folder))?;
    }
    for path in [&copies.cert, &copies.key] {
        let step = UndoStep::Made { path: path.clone() };
        journal.record(step).map_err(failed(path))?;
    }
    let hook = Path::new(HOOK_FILE);
    if let Some(folder) = hook.parent() {
        make_folder(journal, folder, 0o755).map_err(failed(folder))?;
    }
    journal
        .write(hook, &renewal_hook(), 0o755)
        .map_err(failed(hook))?;
    let output = Command::new(hook).output().map_err(failed(hook))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(SetupError::Failed(format!(
        "`{}` failed: {stderr}",
        hook.display()
    )))
}

/// The group of Galley's user.
fn galley_group() -> Option<u32> {
    let groups = fs::read_to_string("/etc/group").ok()?;
    let line = groups.lines().find(|line| line.starts_with("galley:"))?;
    line.split(':').nth(2)?.parse().ok()
}

fn make_folder(journal: &mut SetupJournal, folder: &Path, mode: u32) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let step = UndoStep::Made {
        path: folder.to_owned(),
    };
    journal.record(step)?;
    fs::DirBuilder::new().mode(mode).create(folder)
}

/// Makes Galley run PHP as the owner of WordPress, with write access to it.
fn drop_in(journal: &mut SetupJournal, root: &Path) -> Result<(), SetupError> {
    let file = Path::new(DROP_IN);
    let failed = |cause: io::Error| SetupError::file("write", file, &cause);
    let content = root.join("wp-content");
    let metadata = fs::metadata(&content).map_err(failed)?;
    if metadata.uid() == 0 {
        return Err(SetupError::Failed(format!(
            "`{}` belongs to root, and Galley does not run PHP as root: give it to the user that WordPress runs as",
            content.display()
        )));
    }
    let Some(writable) = plain_path(root) else {
        return Err(SetupError::Failed(format!(
            "`{}` has a character that systemd would interpret: move it, or start PHP-FPM for it",
            root.display().to_string().escape_debug()
        )));
    };
    let text = format!(
        "# Written by `galley setup`: PHP that Galley runs needs WordPress's owner, and write access to WordPress.\n\
         [Service]\nUser={}\nGroup={}\nReadWritePaths=\"{writable}\"\n",
        metadata.uid(),
        metadata.gid(),
    );
    if let Some(folder) = file.parent() {
        make_folder(journal, folder, 0o755).map_err(failed)?;
    }
    journal.write(file, &text, 0o644).map_err(failed)?;
    units::systemctl(&["daemon-reload"])
}

/// The path as text if a unit file may contain it. Root reads the unit, but another user may have chosen the folder's name.
fn plain_path(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let is_special = |c: char| c.is_control() || matches!(c, '"' | '\'' | '\\' | '%' | '$');
    (!text.contains(is_special)).then_some(text)
}

/// Checks that Galley can run the PHP of all these sites: they need the same owner, the user of the service.
pub(super) fn require_one_managed(plan: &SetupPlan) -> Result<(), SetupError> {
    let managed = plan
        .sites
        .iter()
        .filter(|site| site.php == PhpChoice::Managed);
    if managed.count() < 2 {
        return Ok(());
    }
    Err(SetupError::Failed(
        "no PHP-FPM runs for several WordPress: start PHP-FPM, or choose one with --wordpress DIR"
            .to_owned(),
    ))
}

const DROP_IN: &str = "/etc/systemd/system/galley.service.d/setup.conf";
const HIT_TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_cannot_add_lines_to_a_unit() {
        for path in ["/home/x/a\nUser=0", "/home/x/a\"", "/a%h", "/a$X", "/a\\n"] {
            assert_eq!(plain_path(Path::new(path)), None, "{path:?}");
        }
        let path = "/home/x/public html/Blog-1";
        assert_eq!(plain_path(Path::new(path)), Some(path));
    }
}
