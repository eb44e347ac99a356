//! The stage: MariaDB, a WordPress filled and dated, PHP-FPM, and one server in front with a site for each way of purging.
//!
//! WordPress believes that it is asked as [`HOST`] whatever the server's site is called, so all sites compose the same
//! pages. Our plugin holds the token of the site [`HOST`] and so reaches that one only; the others are purged by the run.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{Form, PURGE_MODELS, Setting, With};
use crate::{
    FpmOptions, Galley, MariaDb, Options, PhpFpm, Scratch, Trouble, WordPress, account,
    client::Request, trouble::During, wait::came_true, wordpress_from_template,
};

/// What WordPress takes for its own host; the site that our plugin purges.
pub(super) const HOST: &str = "exact.test";
/// The site that never answers from the cache: the truth.
pub(super) const FRESH: &str = "fresh.test";
/// The sites of the cost: pages that are kept, composed by a worker of their own, with and without our plugin.
pub(super) const WITH: &str = "with.test";
pub(super) const WITHOUT: &str = "without.test";

/// See the module. Parts end in the order of their fields.
pub(super) struct Site {
    galley: Galley,
    /// For visitors and editors; then one worker with and one without our plugin.
    _fpm: PhpFpm,
    pub(super) with: PhpFpm,
    pub(super) without: PhpFpm,
    _database: MariaDb,
    pub(super) wordpress: WordPress,
    /// The pages that are compared.
    pub(super) targets: Vec<String>,
    ids: BTreeMap<String, String>,
    scratch: Scratch,
}

impl Site {
    /// Starts everything. Our plugin is active if its way of purging is among those that are compared.
    pub(super) fn start(setting: &Setting) -> Result<Self, Trouble> {
        let scratch = Scratch::new()?;
        let notes = scratch.dir("notes")?;
        fs::set_permissions(&notes, fs::Permissions::from_mode(0o1777)).during("open the notes")?;
        let (database, wordpress) =
            wordpress_from_template(scratch.path(), &options(&notes, setting.form))?;
        let (targets, ids) = seed(&scratch, &wordpress, setting.form)?;
        let pool = |name: &str, workers: usize, plugin: &str| {
            let options = FpmOptions {
                workers,
                // Nobody changes a file of PHP meanwhile.
                ini: vec![("opcache.revalidate_freq".into(), "60".into())],
                pool: vec![("env[EXACTNESS_PLUGIN]".into(), plugin.into())],
                ..FpmOptions::default()
            };
            PhpFpm::start(&scratch.join(name), &options)
        };
        let fpm = pool("fpm", WORKERS, "with")?;
        let (with, without) = (pool("with", 1, "with")?, pool("without", 1, "without")?);
        let tokens = [
            token(&scratch, "server.token", SERVER_TOKEN)?,
            token(&scratch, "site.token", SITE_TOKEN)?,
        ];
        let config = configuration(
            &wordpress.root,
            &tokens,
            [&fpm, &with, &without],
            setting.form,
        );
        let file = scratch.write("galley.toml", config)?;
        let galley = Galley::start_config(&setting.galley, &scratch.dir("run")?, &file)?;
        let site = Self {
            galley,
            _fpm: fpm,
            with,
            without,
            _database: database,
            wordpress,
            targets,
            ids,
            scratch,
        };
        if setting.with.contains(&With::Galley) {
            site.activate(&setting.plugin)?;
        }
        Ok(site)
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.galley.addr()
    }

    /// What the server has said.
    pub(super) fn log(&self) -> String {
        self.galley.log()
    }

    /// The targets as they are asked for.
    pub(super) fn pages(&self) -> Vec<&str> {
        self.targets.iter().map(String::as_str).collect()
    }

    /// The text with every `[[name]]` replaced by the id of that name.
    ///
    /// # Errors
    /// [`Trouble::Refused`] for a name that the seed has not told.
    pub(super) fn fill(&self, text: &str) -> Result<String, Trouble> {
        let mut parts = text.split("[[");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once("]]").unwrap_or((part, ""));
            let id = self.ids.get(name);
            out += id.ok_or_else(|| Trouble::Refused(format!("the site has no `{name}`")))?;
            out += rest;
        }
        Ok(out)
    }

    /// Purges addresses (path and query) of the site of one way of purging; `*` is everything.
    pub(super) fn purge(&self, with: With, targets: &[String]) -> Result<(), Trouble> {
        let host = with.host();
        if targets.is_empty() {
            return Ok(());
        }
        let what = if targets.iter().any(|target| target == "*") {
            "\"all\":true".to_owned()
        } else {
            let urls: Vec<String> = targets
                .iter()
                .map(|target| quoted(&format!("http://{host}{target}")))
                .collect();
            format!("\"urls\":[{}]", urls.join(","))
        };
        let body = format!("{{\"site\":\"{host}\",{what}}}");
        let addr = self.admin()?;
        let answer = Request::post("/purge", "application/json", body)
            .field("Authorization", format!("Bearer {SERVER_TOKEN}"))
            .send(addr)?;
        if answer.status == 200 {
            return Ok(());
        }
        Err(Trouble::Refused(format!(
            "the purge of {host} failed: {}",
            answer.beginning()
        )))
    }

    /// What the model of this way of purging has noted since the last time, as paths with their queries.
    pub(super) fn noted(&self, with: With) -> Result<Vec<String>, Trouble> {
        let file = self.notes().join(with.name());
        let Ok(text) = fs::read_to_string(&file) else {
            return Ok(Vec::new());
        };
        fs::remove_file(&file).during("clear the notes")?;
        let mut noted: Vec<String> = text.lines().filter_map(target_of).collect();
        noted.sort();
        noted.dedup();
        Ok(noted)
    }

    /// What the server has requested for storing since the last time, where the site notes that: the large one.
    pub(super) fn requested(&self) -> Result<Vec<String>, Trouble> {
        let file = self.notes().join("requests");
        let Ok(text) = fs::read_to_string(&file) else {
            return Ok(Vec::new());
        };
        fs::remove_file(&file).during("clear the requests")?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Waits until the run of wp-cron.php that was asked for has ended with all that follows it.
    pub(super) fn wait_for_cron(&self) -> Result<(), Trouble> {
        let sign = self.notes().join("cron");
        if !came_true(PATIENCE, || sign.exists()) {
            return Err(Trouble::Late {
                what: "wp-cron.php to end".to_owned(),
                patience: PATIENCE,
                log: self.log(),
            });
        }
        fs::remove_file(sign).during("clear the sign of wp-cron.php")
    }

    pub(super) fn notes(&self) -> PathBuf {
        self.scratch.join("notes")
    }

    /// What one of the server's counters stands at for the site of a way of purging.
    pub(super) fn counter(&self, name: &str, with: With) -> Result<u64, Trouble> {
        let answer = Request::get("/metrics")
            .field("Authorization", format!("Bearer {SERVER_TOKEN}"))
            .send(self.admin()?)?;
        let start = format!("{name}{{site=\"{}\"}} ", with.host());
        let text = answer.text();
        let value = text.lines().find_map(|line| line.strip_prefix(&start));
        value
            .and_then(|value| value.trim().parse().ok())
            .ok_or_else(|| {
                Trouble::Refused(format!("no counter `{start}`:\n{}", answer.beginning()))
            })
    }

    /// The server's process.
    pub(super) fn pid(&self) -> u32 {
        self.galley.pid()
    }

    fn admin(&self) -> Result<SocketAddr, Trouble> {
        let said = self.galley.admin().unwrap_or_default();
        let addr = said
            .strip_prefix("http://")
            .and_then(|addr| addr.trim_end_matches('/').parse().ok());
        addr.ok_or_else(|| Trouble::Refused(format!("the admin interface is at `{said}`")))
    }

    /// Puts our plugin into the WordPress, tells it where the server is, and activates it.
    fn activate(&self, plugin: &Path) -> Result<(), Trouble> {
        let connection = self.wordpress.root.join("wp-content/galley-connection.php");
        let text = format!(
            "<?php\nreturn array( 'address' => 'http://{}', 'token' => '{SITE_TOKEN}' );\n",
            self.admin()?
        );
        fs::write(&connection, text).during("write the plugin's connection")?;
        if let Some(user) = account::for_web() {
            user.own(&connection)?;
        }
        self.wordpress.install_plugin(plugin)
    }
}

/// Runs the seed; returns the pages and the ids.
fn seed(
    scratch: &Scratch,
    wordpress: &WordPress,
    form: Form,
) -> Result<(Vec<String>, BTreeMap<String, String>), Trouble> {
    let file = scratch.write("seed/seed.php", SEED)?;
    scratch.write("seed/shop-seed.php", SHOP_SEED)?;
    let asked = match form {
        Form::Short => "putenv('EXACTNESS_SHORT=1');".to_owned(),
        Form::Long => String::new(),
        Form::Shop => "putenv('EXACTNESS_SHOP=1');".to_owned(),
        Form::Large { posts, pages } => {
            format!("putenv('EXACTNESS_POSTS={posts}'); putenv('EXACTNESS_PAGES={pages}');")
        }
    };
    if form == Form::Shop {
        wordpress.php(ADD_LANGUAGES)?;
    }
    let said = wordpress.php(&format!("{asked} require '{}';", file.display()))?;
    let (mut targets, mut ids) = (Vec::new(), BTreeMap::new());
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["page", _, target] => targets.push((*target).to_owned()),
            ["id", name, id] => {
                ids.insert((*name).to_owned(), (*id).to_owned());
            }
            _ => return Err(Trouble::Refused(format!("the seed failed:\n{said}"))),
        }
    }
    Ok((targets, ids))
}

fn options(notes: &Path, form: Form) -> Options {
    let large = match form {
        Form::Large { .. } => "define( 'EXACTNESS_LARGE', true );\n",
        Form::Short | Form::Long | Form::Shop => "",
    };
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let mut mu_plugins = vec![
        file("exact-site.php", SITE),
        file("exact-models.php", PURGE_MODELS),
        file("exact-clock.php", CLOCK),
    ];
    if form == Form::Shop {
        mu_plugins.extend(SHOP.map(|(name, text)| file(name, text)));
    }
    Options {
        url: Some(format!("http://{HOST}")),
        mu_plugins,
        extra_config: format!(
            "$_SERVER['HTTP_HOST'] = $_SERVER['SERVER_NAME'] = '{HOST}';\ndefine( 'EXACTNESS_NOTES', '{}' );\n{large}",
            notes.display()
        ),
        ..Options::default()
    }
}

fn token(scratch: &Scratch, name: &str, text: &str) -> Result<PathBuf, Trouble> {
    let file = scratch.write(name, text)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).during("close a token")?;
    Ok(file)
}

/// MiB for all pages of the sites that are compared.
fn memory(form: Form) -> usize {
    match form {
        Form::Short | Form::Long | Form::Shop => 256,
        Form::Large { pages, .. } => 256 + pages / 4,
    }
}

fn configuration(root: &Path, tokens: &[PathBuf; 2], fpm: [&PhpFpm; 3], form: Form) -> String {
    let memory = memory(form);
    let mut text = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = {}\n\
         [cache]\nmemory = \"{memory}MiB\"\n[log]\naccess = \"off\"\nlevel = \"warn\"\n",
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
    // What it takes to patch a page is stated with one coding. Members of the large site get stored pages.
    let codings = match form {
        Form::Large { .. } => "compress = [\"gzip\"]\nmembers = \"fragments\"\n",
        Form::Short | Form::Long | Form::Shop => "",
    };
    let token = format!(
        "token_file = {}\n{codings}{DAY}",
        quoted(&tokens[1].display().to_string())
    );
    site(HOST, fpm[0], WORKERS, &token);
    for with in [With::ProxyCachePurge, With::NginxHelper, With::None] {
        site(with.host(), fpm[0], WORKERS, DAY);
    }
    site(
        FRESH,
        fpm[0],
        WORKERS,
        "[[site.rule]]\npath = \"/*\"\ncache = false",
    );
    site(WITH, fpm[1], 1, DAY);
    site(WITHOUT, fpm[2], 1, DAY);
    text
}

/// Path and query of an address; `*` stays.
pub(super) fn target_of(url: &str) -> Option<String> {
    if url == "*" {
        return Some(url.to_owned());
    }
    let (_, rest) = url.split_once("://")?;
    let path = rest.find('/').and_then(|at| rest.get(at..));
    Some(path.unwrap_or("/").to_owned())
}

/// A string as JSON and TOML both write it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

const SEED: &str = include_str!("../../assets/exactness/seed.php");
const SHOP_SEED: &str = include_str!("../../assets/exactness/shop-seed.php");
/// A language is known from the next request on.
const ADD_LANGUAGES: &str = "foreach ( array( 'en' => 'English', 'de' => 'Deutsch', 'fr' => 'Français' ) as $slug => $name ) { exact_languages_add( $slug, $name ); }";
/// What stands in for Polylang and WooCommerce.
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
const CLOCK: &str = include_str!("../../assets/exactness/clock.php");
/// Longer than any run: nothing leaves the cache by itself.
const DAY: &str = "[site.ttl]\ndefault = \"1d\"\n\"404\" = \"1d\"";
const WORKERS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(60);
/// Not secrets: the interface listens on this machine, for the length of a run.
const SERVER_TOKEN: &str = "exactness-token-of-the-server";
const SITE_TOKEN: &str = "exactness-token-of-one-site";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_targets() {
        let rows = [
            ("http://exact.test/a/?b=c", Some("/a/?b=c")),
            ("http://exact.test", Some("/")),
            ("*", Some("*")),
            ("", None),
        ];
        for (url, wanted) in rows {
            assert_eq!(target_of(url).as_deref(), wanted, "{url}");
        }
    }
}
