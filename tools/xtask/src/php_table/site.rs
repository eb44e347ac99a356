//! One WordPress with a pool of PHP-FPM for each column, and a Galley in front of all, which stores no page of a visitor with a cart.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use galley_testkit::client::{CookieJar, Request, login};
use galley_testkit::{
    FpmListen, FpmOptions, Galley, MariaDb, Options, PhpFpm, Scratch, WordPress,
    wordpress_from_template,
};

use super::columns::{Column, Extra};
use crate::bench::ProcessTree;
use crate::error::CommandError;

/// The running services, which stop in the order of the fields.
pub(super) struct Site {
    front: Galley,
    pools: Vec<(&'static str, PhpFpm)>,
    database: MariaDb,
    members: Vec<(&'static str, CookieJar)>,
    _scratch: Scratch,
}

impl Site {
    pub(super) fn start(binary: &Path, columns: &[Column]) -> Result<Self, CommandError> {
        let scratch = Scratch::new()?;
        let options = Options {
            mu_plugins: vec![("shop.php".to_owned(), SHOP.to_owned())],
            ..Options::default()
        };
        eprintln!("php-table: installs WordPress with the sample shop");
        let (database, wordpress) = wordpress_from_template(scratch.path(), &options)?;
        let output = wordpress.php("sample_shop_seed();")?;
        if !output.ends_with("seeded") {
            return Err(format!("the sample shop was not made: {output}").into());
        }
        fs::write(wordpress.root.join("wp-content/db.php"), PERSISTENT)?;
        let mut pools = Vec::new();
        for column in columns {
            if let Some(pool) = pool(column, &scratch, &wordpress)? {
                pools.push((column.name, pool));
            }
        }
        let front = start_front(binary, &scratch, &wordpress, columns, &pools)?;
        let mut members = Vec::new();
        for column in columns {
            let jar = login(
                front.addr(),
                &host(column),
                &wordpress.user,
                &wordpress.password,
            )
            .map_err(|error| format!("{}: {error}\n{}", column.name, front.log()))?;
            members.push((column.name, jar));
        }
        Ok(Self {
            front,
            pools,
            database,
            members,
            _scratch: scratch,
        })
    }

    /// Requests a page and returns the milliseconds of processor time that it cost.
    pub(super) fn request(
        &self,
        column: &Column,
        target: &str,
        is_member: bool,
    ) -> Result<f64, CommandError> {
        let jar = self.members.iter().find(|(name, _)| *name == column.name);
        let cookies = jar
            .filter(|_| is_member)
            .and_then(|(_, jar)| jar.field(target));
        // The pages of a visitor with a cart are not stored.
        let cookies = cookies.unwrap_or_else(|| "woocommerce_items_in_cart=1".to_owned());
        let request = Request::get(target)
            .host(&host(column))
            .field("Cookie", cookies);
        let before = self.cpu_ms(column);
        let response = request.send(self.front.addr())?;
        let cost = self.cpu_ms(column) - before;
        if response.status == 200 {
            return Ok(cost);
        }
        Err(format!("{} {target}: {}", column.name, response.excerpt()).into())
    }

    /// Starts the PHP of a column again, and returns the milliseconds of processor time until its first front page has ended, and those
    /// that this page took.
    pub(super) fn start_again(&mut self, column: &Column) -> Result<[f64; 2], CommandError> {
        let database = ProcessTree::cpu_time(&[self.database.pid()]);
        let pool = self.pools.iter_mut().find(|(name, _)| *name == column.name);
        pool.ok_or("no such column")?.1.restart()?;
        let began = Instant::now();
        self.request(column, "/", false)?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        // All of PHP is new, so its time counts from its start.
        Ok([self.cpu_ms(column) - database.as_secs_f64() * 1e3, took])
    }

    /// The processor time of the column's PHP and the database until now.
    fn cpu_ms(&self, column: &Column) -> f64 {
        let pool = self.pools.iter().find(|(name, _)| *name == column.name);
        let mut roots = match pool {
            Some((_, pool)) => vec![pool.pid()],
            None => ProcessTree::children(self.front.pid()),
        };
        roots.push(self.database.pid());
        ProcessTree::cpu_time(&roots).as_secs_f64() * 1e3
    }
}

fn host(column: &Column) -> String {
    format!("{}.test", column.name)
}

/// The PHP of a column; `None`: Galley runs it.
fn pool(
    column: &Column,
    scratch: &Scratch,
    wordpress: &WordPress,
) -> Result<Option<PhpFpm>, CommandError> {
    let Some(ini) = column.ini else {
        return Ok(None);
    };
    let dir = scratch.dir(column.name)?;
    let mut options = FpmOptions {
        workers: 1,
        ini: vec![("memory_limit".to_owned(), "256M".to_owned())],
        ..FpmOptions::default()
    };
    let mut system: Vec<(String, String)> = ini
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let mut set = |name: &str, value: String| system.push((name.to_owned(), value));
    match column.extra {
        Extra::None => {}
        Extra::Preload => {
            let root = wordpress.root.display();
            let script =
                scratch.write("preload.php", PRELOAD.replace("{root}", &root.to_string()))?;
            set("opcache.preload", script.display().to_string());
            set("opcache.preload_user", "www-data".to_owned());
        }
        Extra::FileCache => {
            let folder = scratch.dir("file-cache")?;
            fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
            set("opcache.file_cache", folder.display().to_string());
        }
        Extra::PersistentConnections => {
            options.pool = vec![("env[DATABASE_PERSISTENT]".to_owned(), "1".to_owned())];
        }
        Extra::Tcp => options.listen = FpmListen::Tcp,
    }
    options.system = system;
    Ok(Some(PhpFpm::start(&dir, &options)?))
}

/// The Galley that all requests go to.
fn start_front(
    binary: &Path,
    scratch: &Scratch,
    wordpress: &WordPress,
    columns: &[Column],
    pools: &[(&'static str, PhpFpm)],
) -> Result<Galley, CommandError> {
    let mut config =
        "[server]\nlisten = [\"127.0.0.1:0\"]\nlimit_exempt = [\"127.0.0.1\"]\n[admin]\nlisten = \"off\"\n".to_owned();
    for column in columns {
        let pool = pools.iter().find(|(name, _)| *name == column.name);
        let php = pool.map_or_else(|| "managed".to_owned(), |(_, pool)| pool.address());
        write!(
            config,
            "[[site]]\nhosts = [\"{}\"]\nroot = \"{}\"\nphp = \"{php}\"\ncron = \"off\"\naudit = false\n",
            host(column),
            wordpress.root.display(),
        )?;
    }
    let file = scratch.write("front.toml", config)?;
    Ok(Galley::start_config(binary, &scratch.dir("front")?, &file)?)
}

const SHOP: &str = include_str!("../../../testkit/assets/object-cache/shop.php");

/// Compiles what every page of WordPress reads, without running it.
const PRELOAD: &str = "<?php
$root = '{root}/wp-includes';
foreach (new RecursiveIteratorIterator(new RecursiveDirectoryIterator($root)) as $file) {
    $path = (string) $file;
    if (substr($path, -4) === '.php' && !preg_match('~/(sodium_compat|blocks|theme-compat|js|css|assets)/~', $path)) {
        @opcache_compile_file($path);
    }
}
";

/// A drop-in that connects persistently in the column that asks for it.
const PERSISTENT: &str = "<?php
if (getenv('DATABASE_PERSISTENT')) {
    class Persistent_Wpdb extends wpdb {
        public function parse_db_host($host) {
            $parts = parent::parse_db_host($host);
            if ($parts) {
                $parts[0] = 'p:' . ($parts[0] === '' ? 'localhost' : $parts[0]);
            }
            return $parts;
        }
    }
    $wpdb = new Persistent_Wpdb(DB_USER, DB_PASSWORD, DB_NAME, DB_HOST);
}
";
