//! The environment of a run: MariaDB, a WordPress with content of fixed dates, PHP-FPM, and one server with a site for each
//! purge method.
//!
//! WordPress takes [`HOST`] for the host of every request, so all sites generate the same pages. Our plugin has only the
//! token of the site [`HOST`]; the run purges the other sites.
//!
//! With our plugin, the suites of edits also use Galley's object cache. The reference pages, and those whose cost is measured, come from
//! PHP without it: an old value of the object cache would otherwise be in both of the pages that are compared.

use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{ExactnessSettings, KEPT_WIDGET, PURGE_MODELS, PurgeMethod, Suite};
use crate::{
    FpmOptions, Galley, MariaDb, Options, PhpFpm, Scratch, TestkitError, WordPress, account,
    client::{Connection, Request},
    error::Context,
    wait::poll_until,
    wordpress_from_template,
};

/// The host that WordPress uses; the site that our plugin purges.
pub(super) const HOST: &str = "exact.test";
/// The site without a cache, which gives the reference pages.
pub(super) const UNCACHED_HOST: &str = "fresh.test";
/// The sites that measure the cost of our plugin, with and without it; each has a cache and a separate PHP worker.
pub(super) const WITH_PLUGIN_HOST: &str = "with.test";
pub(super) const WITHOUT_PLUGIN_HOST: &str = "without.test";

/// The running environment. Services stop in the order of the fields.
pub(super) struct ExactnessSite {
    galley: Galley,
    /// For visitors and editors, and for the reference.
    _fpm: [PhpFpm; 2],
    /// One worker with our plugin.
    pub(super) with_plugin: PhpFpm,
    /// One worker without it.
    pub(super) without_plugin: PhpFpm,
    pub(super) database: MariaDb,
    pub(super) wordpress: WordPress,
    /// The pages to compare.
    pub(super) targets: Vec<String>,
    /// Ids of the seed's objects, by name.
    ids: BTreeMap<String, String>,
    scratch: Scratch,
}

impl ExactnessSite {
    /// Starts all services. Our plugin is active if [`PurgeMethod::Galley`] is among the methods.
    pub(super) fn start(settings: &ExactnessSettings) -> Result<Self, TestkitError> {
        let scratch = Scratch::new()?;
        let notes = scratch.dir("notes")?;
        fs::set_permissions(&notes, fs::Permissions::from_mode(0o1777))
            .context("make the notes writable for PHP")?;
        let (database, wordpress) =
            wordpress_from_template(scratch.path(), &options(&notes, settings.suite))?;
        let (targets, ids) = run_seed(&scratch, &wordpress, settings.suite)?;
        let pool = |name: &str, workers: usize, plugin: &str, objects: &str| {
            let options = FpmOptions {
                workers,
                // No PHP file changes during a run.
                ini: vec![("opcache.revalidate_freq".into(), "60".into())],
                pool: vec![
                    ("env[EXACTNESS_PLUGIN]".into(), plugin.into()),
                    ("env[EXACTNESS_OBJECTS]".into(), objects.into()),
                ],
                ..FpmOptions::default()
            };
            PhpFpm::start(&scratch.join(name), &options)
        };
        let fpm = [
            pool("fpm", WORKERS, "with", "with")?,
            pool("fresh", WORKERS, "with", "without")?,
        ];
        let with_plugin = pool("with", 1, "with", "without")?;
        let without_plugin = pool("without", 1, "without", "without")?;
        let tokens = [
            write_token(&scratch, "server.token", SERVER_TOKEN)?,
            write_token(&scratch, "site.token", SITE_TOKEN)?,
        ];
        let config = configuration(
            &wordpress.root,
            &scratch.join("admin.sock"),
            &tokens,
            [&fpm[0], &fpm[1], &with_plugin, &without_plugin],
            settings.suite,
        );
        let file = scratch.write("galley.toml", config)?;
        let galley = Galley::start_config(&settings.galley, &scratch.dir("run")?, &file)?;
        let site = Self {
            galley,
            _fpm: fpm,
            with_plugin,
            without_plugin,
            database,
            wordpress,
            targets,
            ids,
            scratch,
        };
        if settings.methods.contains(&PurgeMethod::Galley) {
            site.activate_plugin(&settings.plugin)?;
            if has_object_cache(settings.suite) {
                let file = site.wordpress.root.join("wp-content/object-cache.php");
                fs::write(file, DROP_IN).context("write the drop-in")?;
            }
        }
        Ok(site)
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.galley.addr()
    }

    /// The server's log.
    pub(super) fn log(&self) -> String {
        self.galley.log()
    }

    /// The targets as slices.
    pub(super) fn pages(&self) -> Vec<&str> {
        self.targets.iter().map(String::as_str).collect()
    }

    /// Replaces every `[[name]]` in the text by the id of the object with that name.
    ///
    /// # Errors
    /// [`TestkitError::Refused`] for a name that the seed has not printed.
    pub(super) fn substitute_ids(&self, text: &str) -> Result<String, TestkitError> {
        let mut parts = text.split("[[");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once("]]").unwrap_or((part, ""));
            let id = self.ids.get(name);
            out += id.ok_or_else(|| TestkitError::Refused(format!("the site has no `{name}`")))?;
            out += rest;
        }
        Ok(out)
    }

    /// Purges these targets (path and query) of the site of one purge method; `*` means all.
    pub(super) fn purge(
        &self,
        method: PurgeMethod,
        targets: &[String],
    ) -> Result<(), TestkitError> {
        let host = method.host();
        if targets.is_empty() {
            return Ok(());
        }
        let selection = if targets.iter().any(|target| target == "*") {
            "\"all\":true".to_owned()
        } else {
            let urls: Vec<String> = targets
                .iter()
                .map(|target| quoted(&format!("http://{host}{target}")))
                .collect();
            format!("\"urls\":[{}]", urls.join(","))
        };
        let body = format!("{{\"site\":\"{host}\",{selection}}}");
        self.admin(Request::post("/purge", "application/json", body))
            .map(drop)
    }

    /// Sends a request to the admin interface; returns the text of its response.
    ///
    /// # Errors
    /// [`TestkitError::Refused`] if the status is not 200.
    pub(super) fn admin(&self, request: Request) -> Result<String, TestkitError> {
        let request = request.field("Authorization", format!("Bearer {SERVER_TOKEN}"));
        let response =
            Connection::to_socket(&self.scratch.join("admin.sock"))?.exchange(&request)?;
        if response.status == 200 {
            return Ok(response.text());
        }
        Err(TestkitError::Refused(format!(
            "the admin interface refused: {}",
            response.excerpt()
        )))
    }

    /// The targets that the model of this purge method has recorded since the last call.
    pub(super) fn take_recorded_purges(
        &self,
        method: PurgeMethod,
    ) -> Result<Vec<String>, TestkitError> {
        let file = self.notes_dir().join(method.name());
        let Ok(text) = fs::read_to_string(&file) else {
            return Ok(Vec::new());
        };
        fs::remove_file(&file).context("remove recorded purges")?;
        let mut targets: Vec<String> = text.lines().filter_map(target_of).collect();
        targets.sort();
        targets.dedup();
        Ok(targets)
    }

    /// The requests of the server for content to store since the last call. Only the large site records them.
    pub(super) fn take_recorded_requests(&self) -> Result<Vec<String>, TestkitError> {
        let file = self.notes_dir().join("requests");
        let Ok(text) = fs::read_to_string(&file) else {
            return Ok(Vec::new());
        };
        fs::remove_file(&file).context("remove recorded requests")?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Waits until the requested run of wp-cron.php has ended, including its work after the response.
    pub(super) fn wait_for_cron(&self) -> Result<(), TestkitError> {
        let marker = self.notes_dir().join("cron");
        if !poll_until(TIMEOUT, || marker.exists()) {
            return Err(TestkitError::Timeout {
                what: "wp-cron.php to end".to_owned(),
                timeout: TIMEOUT,
                log: self.log(),
            });
        }
        fs::remove_file(marker).context("remove the marker of wp-cron.php")
    }

    /// The directory where PHP writes measurements and records.
    pub(super) fn notes_dir(&self) -> PathBuf {
        self.scratch.join("notes")
    }

    /// The directory of the scripts that [`super::script`] runs.
    pub(super) fn scripts_dir(&self) -> PathBuf {
        self.notes_dir().join(SCRIPTS_DIR)
    }

    /// The value of one of the server's counters for the site of a purge method.
    pub(super) fn counter(&self, name: &str, method: PurgeMethod) -> Result<u64, TestkitError> {
        let text = self.admin(Request::get("/metrics"))?;
        let start = format!("{name}{{site=\"{}\"}} ", method.host());
        let value = text.lines().find_map(|line| line.strip_prefix(&start));
        value
            .and_then(|value| value.trim().parse().ok())
            .ok_or_else(|| TestkitError::Refused(format!("no counter `{start}`:\n{text}")))
    }

    /// Process id of the server.
    pub(super) fn pid(&self) -> u32 {
        self.galley.pid()
    }

    /// Copies our plugin into WordPress, configures its connection to the server, and activates it.
    fn activate_plugin(&self, plugin: &Path) -> Result<(), TestkitError> {
        let connection = self.wordpress.root.join("wp-content/galley-connection.php");
        let text = format!(
            "<?php\nreturn array( 'address' => 'unix:{}', 'token' => '{SITE_TOKEN}' );\n",
            self.scratch.join("admin.sock").display()
        );
        fs::write(&connection, text).context("write the plugin's connection")?;
        if let Some(user) = account::web_user() {
            user.chown(&connection)?;
        }
        self.wordpress.install_plugin(plugin)
    }
}

/// Runs the seed; returns the targets of the pages, and the ids by name.
fn run_seed(
    scratch: &Scratch,
    wordpress: &WordPress,
    suite: Suite,
) -> Result<(Vec<String>, BTreeMap<String, String>), TestkitError> {
    let file = scratch.write("seed/seed.php", SEED)?;
    scratch.write("seed/shop-seed.php", SHOP_SEED)?;
    let environment = match suite {
        Suite::Scripts => return Ok((Vec::new(), BTreeMap::new())),
        Suite::Short => "putenv('EXACTNESS_SHORT=1');".to_owned(),
        Suite::Long => String::new(),
        Suite::Shop => "putenv('EXACTNESS_SHOP=1');".to_owned(),
        Suite::Large { posts, pages } => {
            format!("putenv('EXACTNESS_POSTS={posts}'); putenv('EXACTNESS_PAGES={pages}');")
        }
    };
    if suite == Suite::Shop {
        wordpress.php(ADD_LANGUAGES)?;
    }
    let output = wordpress.php(&format!("{environment} require '{}';", file.display()))?;
    let (mut targets, mut ids) = (Vec::new(), BTreeMap::new());
    for line in output.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["page", _, target] => targets.push((*target).to_owned()),
            ["id", name, id] => {
                ids.insert((*name).to_owned(), (*id).to_owned());
            }
            _ => return Err(TestkitError::Refused(format!("the seed failed:\n{output}"))),
        }
    }
    Ok((targets, ids))
}

fn options(notes: &Path, suite: Suite) -> Options {
    let constants = match suite {
        Suite::Large { .. } => "define( 'EXACTNESS_LARGE', true );\n".to_owned(),
        Suite::Scripts => format!(
            "define( 'EXACTNESS_PLAIN', true );\ndefine( 'EXACTNESS_SCRIPTS', '{}' );\n",
            notes.join(SCRIPTS_DIR).display()
        ),
        Suite::Short | Suite::Long | Suite::Shop => String::new(),
    };
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let mut mu_plugins = vec![file("exact-site.php", SITE)];
    if suite == Suite::Scripts {
        mu_plugins.push(file("exact-scripts.php", SCRIPTS));
    } else {
        mu_plugins.extend([
            file("exact-models.php", PURGE_MODELS),
            file("exact-clock.php", CLOCK),
            file("exact-kept-widget.php", KEPT_WIDGET),
        ]);
    }
    if suite == Suite::Shop {
        mu_plugins.extend(SHOP.map(|(name, text)| file(name, text)));
    }
    Options {
        url: Some(format!("http://{HOST}")),
        mu_plugins,
        extra_config: format!(
            "$_SERVER['HTTP_HOST'] = $_SERVER['SERVER_NAME'] = '{HOST}';\ndefine( 'EXACTNESS_NOTES', '{}' );\n{constants}",
            notes.display()
        ),
        ..Options::default()
    }
}

fn write_token(scratch: &Scratch, name: &str, text: &str) -> Result<PathBuf, TestkitError> {
    let file = scratch.write(name, text)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))
        .context("restrict the permissions of a token")?;
    Ok(file)
}

/// Memory in MiB that holds all pages of the compared sites.
fn memory_mib(suite: Suite) -> usize {
    match suite {
        Suite::Short | Suite::Long | Suite::Shop | Suite::Scripts => 256,
        Suite::Large { pages, .. } => 256 + pages / 4,
    }
}

/// Whether the site uses Galley's object cache: suites of edits if the variable `GALLEY_EXACTNESS_OBJECTS` is set. The others have caches of
/// their own, or measure what was measured without one before.
pub(super) fn has_object_cache(suite: Suite) -> bool {
    matches!(suite, Suite::Short | Suite::Long | Suite::Shop)
        && env::var_os("GALLEY_EXACTNESS_OBJECTS").is_some()
}

fn configuration(
    root: &Path,
    admin: &Path,
    tokens: &[PathBuf; 2],
    fpm: [&PhpFpm; 4],
    suite: Suite,
) -> String {
    let memory = memory_mib(suite);
    let mut text = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = {}\ntoken_file = {}\n\
         [cache]\nmemory = \"{memory}MiB\"\n[log]\naccess = \"off\"\nlevel = \"warn\"\n",
        quoted(&format!("unix:{}", admin.display())),
        quoted(&tokens[0].display().to_string())
    );
    let mut site = |host: &str, fpm: &PhpFpm, workers: usize, lines: &str| {
        let _ = write!(
            text,
            "[[site]]\nhosts = [\"{host}\"]\ncron = \"off\"\nroot = {}\nphp = {}\nin_flight = {workers}\nqueue_timeout = \"1h\"\n{lines}\n",
            quoted(&root.display().to_string()),
            quoted(&fpm.address())
        );
    };
    // The stated cost of patching a page is for one content coding. Members of the large site get stored pages.
    let codings = match suite {
        Suite::Large { .. } => "compress = [\"gzip\"]\nmembers = \"fragments\"\n",
        Suite::Short | Suite::Long | Suite::Shop | Suite::Scripts => "",
    };
    let token = format!(
        "token_file = {}\n{codings}{DAY}",
        quoted(&tokens[1].display().to_string())
    );
    site(HOST, fpm[0], WORKERS, &token);
    for method in [
        PurgeMethod::ProxyCachePurge,
        PurgeMethod::NginxHelper,
        PurgeMethod::None,
    ] {
        site(method.host(), fpm[0], WORKERS, DAY);
    }
    site(
        UNCACHED_HOST,
        fpm[1],
        WORKERS,
        "[[site.rule]]\npath = \"/*\"\ncache = false",
    );
    site(WITH_PLUGIN_HOST, fpm[2], 1, DAY);
    site(WITHOUT_PLUGIN_HOST, fpm[3], 1, DAY);
    text
}

/// Path and query of a URL; returns `*` unchanged.
pub(super) fn target_of(url: &str) -> Option<String> {
    if url == "*" {
        return Some(url.to_owned());
    }
    let (_, rest) = url.split_once("://")?;
    let path = rest.find('/').and_then(|at| rest.get(at..));
    Some(path.unwrap_or("/").to_owned())
}

/// A string literal that is valid in JSON and TOML.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

const DROP_IN: &str = include_str!("../../assets/exactness/drop-in.php");
const SEED: &str = include_str!("../../assets/exactness/seed.php");
const SHOP_SEED: &str = include_str!("../../assets/exactness/shop-seed.php");
/// Runs before the seed, because WordPress knows a new language only from the next request on.
const ADD_LANGUAGES: &str = "foreach ( array( 'en' => 'English', 'de' => 'Deutsch', 'fr' => 'Français' ) as $slug => $name ) { exact_languages_add( $slug, $name ); }";
/// Stand-ins for Polylang and WooCommerce.
const SHOP: [(&str, &str); 4] = [
    (
        "exact-languages.php",
        include_str!("../../assets/exactness/languages.php"),
    ),
    (
        "exact-shop.php",
        include_str!("../../assets/exactness/shop.php"),
    ),
    (
        "exact-shop-doors.php",
        include_str!("../../assets/exactness/shop-doors.php"),
    ),
    (
        "exact-shop-pages.php",
        include_str!("../../assets/exactness/shop-pages.php"),
    ),
];
const SITE: &str = include_str!("../../assets/exactness/site.php");
const SCRIPTS: &str = include_str!("../../assets/exactness/scripts.php");
const CLOCK: &str = include_str!("../../assets/exactness/clock.php");
/// Longer than any run, so that no page expires.
const DAY: &str = "[site.ttl]\ndefault = \"1d\"\n\"404\" = \"1d\"";
const SCRIPTS_DIR: &str = "scripts";
const WORKERS: usize = 4;
const TIMEOUT: Duration = Duration::from_secs(60);
/// Not secrets: the admin interface listens only on this machine and only during a run.
const SERVER_TOKEN: &str = "exactness-token-of-the-server";
const SITE_TOKEN: &str = "exactness-token-of-one-site";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_converted_to_targets() {
        let rows = [
            ("http://exact.test/a/?b=c", Some("/a/?b=c")),
            ("http://exact.test", Some("/")),
            ("*", Some("*")),
            ("", None),
        ];
        for (url, expected) in rows {
            assert_eq!(target_of(url).as_deref(), expected, "{url}");
        }
    }
}
