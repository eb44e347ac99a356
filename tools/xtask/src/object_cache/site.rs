//! One WordPress with a pool of PHP-FPM for each column, a Galley in front of all, and the caches: another Galley, a Redis.
//!
//! The Galley in front stores no page and has no object cache. The other one has the object cache, and answers what the plugin asks on the
//! screens of the administration: it counts in each column, because the plugin asks in each.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use galley_testkit::client::{CookieJar, Request, login};
use galley_testkit::{
    FpmOptions, Galley, MariaDb, Options, PhpFpm, Redis, Scratch, WordPress,
    wordpress_from_template,
};

use super::command::{Arguments, Column, PageCost, PageCpu};
use crate::bench::{ProcessTree, ThreadTimes};
use crate::error::CommandError;

/// The running services, which stop in the order of the fields.
pub(super) struct Site {
    front: Galley,
    store: Galley,
    pools: Vec<(Column, PhpFpm)>,
    columns: Vec<Column>,
    redis: Redis,
    database: MariaDb,
    members: Vec<(Column, CookieJar)>,
    _scratch: Scratch,
}

impl Site {
    pub(super) fn start(arguments: &Arguments, binary: &Path) -> Result<Self, CommandError> {
        let scratch = Scratch::new()?;
        let options = Options {
            mu_plugins: vec![("shop.php".to_owned(), SHOP.to_owned())],
            ..Options::default()
        };
        eprintln!("object-cache: installs WordPress with the sample shop");
        let (database, wordpress) = wordpress_from_template(scratch.path(), &options)?;
        install(arguments, &wordpress)?;
        let redis = Redis::start(&scratch.dir("redis")?)?;
        // On a private machine, as a cache: no disk.
        redis.run(&["config", "set", "appendonly", "no"])?;
        fs::set_permissions(scratch.join("redis"), fs::Permissions::from_mode(0o755))?;
        let mut pools = Vec::new();
        for column in Column::ALL {
            let Some(pool) = pool(column, arguments, &scratch, &redis)? else {
                eprintln!("object-cache: APCu is SKIPPED: PHP-FPM does not load it: --apcu FILE");
                continue;
            };
            pools.push((column, pool));
        }
        // The plugin looks whose drop-in there is, so the one of Galley needs a folder of its own.
        let own = scratch.join("own");
        copy(&wordpress.root, &own)?;
        fs::copy(
            arguments.plugin.join("object-cache/drop-in.php"),
            own.join("wp-content/object-cache.php"),
        )?;
        let content = wordpress.root.join("wp-content");
        fs::write(content.join("object-cache-peers.php"), PEERS)?;
        fs::write(content.join("object-cache.php"), DROP_IN)?;
        let root = |column| match column {
            Column::Galley => own.as_path(),
            _ => wordpress.root.as_path(),
        };
        let store = start_store(binary, &scratch, [&own, &wordpress.root], &pools)?;
        let front = start_front(binary, &scratch, root, &pools)?;
        let mut members = Vec::new();
        for (column, _) in &pools {
            let host = column.host();
            let jar = login(front.addr(), &host, &wordpress.user, &wordpress.password)
                .map_err(|error| format!("{host}: {error}\n{}", front.log()))?;
            members.push((*column, jar));
        }
        Ok(Self {
            columns: pools.iter().map(|(column, _)| *column).collect(),
            front,
            store,
            pools,
            redis,
            database,
            members,
            _scratch: scratch,
        })
    }

    /// Starts the PHP of each column anew, with its memory elsewhere and without compiled code.
    pub(super) fn restart_php(&mut self) -> Result<(), CommandError> {
        for (_, pool) in &mut self.pools {
            pool.restart()?;
        }
        Ok(())
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Requests a page and returns what it cost. On a busy machine PHP may have waited too long for the store: then once more, when it uses
    /// it again.
    pub(super) fn request(
        &self,
        column: Column,
        target: &str,
        is_member: bool,
    ) -> Result<PageCost, CommandError> {
        for _ in 0..MAX_ATTEMPTS {
            if let Some(cost) = self.attempt(column, target, is_member)? {
                return Ok(cost);
            }
            eprintln!("object-cache: PHP did without the store; once more in 6 seconds");
            thread::sleep(Duration::from_secs(6));
        }
        Err(format!("{} {target}: PHP does without the store", column.name()).into())
    }

    /// `None`: PHP did without the store.
    fn attempt(
        &self,
        column: Column,
        target: &str,
        is_member: bool,
    ) -> Result<Option<PageCost>, CommandError> {
        let before = self.cpu(column);
        let jar = self.members.iter().find(|(other, _)| *other == column);
        let cookies = jar
            .filter(|_| is_member)
            .and_then(|(_, jar)| jar.field(target));
        // The pages of a visitor with a cart are not stored.
        let cookies = cookies.unwrap_or_else(|| "woocommerce_items_in_cart=1".to_owned());
        let request = Request::get(target)
            .host(&column.host())
            .field("Cookie", cookies);
        let response = request.send(self.front.addr())?;
        let header = |name: &str| response.field(name).and_then(|text| text.parse().ok());
        let (Some(queries), Some(round_trips), 200) = (
            header("X-Queries"),
            header("X-Round-Trips"),
            response.status,
        ) else {
            return Err(format!("{} {target}: {}", column.name(), response.excerpt()).into());
        };
        let cost = PageCost {
            cpu: self.settled(column).since(&before),
            queries,
            round_trips,
        };
        Ok((response.field("X-Is-Away") == Some("0")).then_some(cost))
    }

    /// The threads of the column's PHP, of the database, and of the caches.
    fn cpu(&self, column: Column) -> CpuClocks {
        let pool = self.pools.iter().find(|(other, _)| *other == column);
        let php: Vec<u32> = pool.map(|(_, pool)| pool.pid()).into_iter().collect();
        let caches = match column {
            Column::Redis | Column::Mget => &[self.store.pid(), self.redis.pid()][..],
            Column::Galley | Column::None | Column::Apcu => &[self.store.pid()],
        };
        CpuClocks([&php[..], &[self.database.pid()], caches].map(ProcessTree::threads))
    }

    /// The same, when they have nothing more to do: PHP frees its memory and the caches learn after the response, and the kernel counts the
    /// time of a thread when it stops.
    fn settled(&self, column: Column) -> CpuClocks {
        let mut cpu = self.cpu(column);
        for _ in 0..MAX_PAUSES {
            thread::sleep(PAUSE);
            let now = self.cpu(column);
            if now == cpu {
                break;
            }
            cpu = now;
        }
        cpu
    }
}

/// The threads of PHP, of the database, and of the caches.
#[derive(PartialEq)]
struct CpuClocks([ThreadTimes; 3]);

impl CpuClocks {
    fn since(&self, before: &Self) -> PageCpu {
        let parts = self.0.iter().zip(&before.0);
        let mut parts = parts.map(|(after, before)| after.since(before).as_secs_f64() * 1e3);
        let mut next = || parts.next().unwrap_or_default();
        PageCpu {
            php: next(),
            database: next(),
            cache: next(),
        }
    }
}

fn install(arguments: &Arguments, wordpress: &WordPress) -> Result<(), CommandError> {
    wordpress.install_plugin(&arguments.plugin)?;
    for folder in &arguments.with_plugin {
        let name = folder.file_name().ok_or("--with-plugin names no folder")?;
        let name = name.to_string_lossy();
        let target = wordpress.root.join("wp-content/plugins").join(&*name);
        copy(folder, &target)?;
        let output = wordpress.php(&format!(
            "wp_set_current_user(1); require_once ABSPATH . 'wp-admin/includes/admin.php'; \
             $failed = activate_plugin('{name}/{name}.php'); \
             echo is_wp_error($failed) ? $failed->get_error_message() : 'active';"
        ))?;
        if !output.ends_with("active") {
            return Err(format!("{name} was not activated: {output}").into());
        }
    }
    let output = wordpress.php("sample_shop_seed();")?;
    if output.ends_with("seeded") {
        return Ok(());
    }
    Err(format!("the sample shop was not made: {output}").into())
}

fn copy(folder: &Path, target: &Path) -> Result<(), CommandError> {
    let mut command = Command::new("cp");
    let copied = command.arg("-rL").arg(folder).arg(target).status()?;
    if copied.success() {
        return Ok(());
    }
    Err(format!("cannot copy {}", folder.display()).into())
}

/// The PHP of a column; `None`: its extension is not there.
fn pool(
    column: Column,
    arguments: &Arguments,
    scratch: &Scratch,
    redis: &Redis,
) -> Result<Option<PhpFpm>, CommandError> {
    let mut ini = vec![("memory_limit".to_owned(), "256M".to_owned())];
    if column == Column::Apcu {
        if let Some(file) = &arguments.apcu {
            ini.push(("extension".to_owned(), file.display().to_string()));
        } else if !Command::new("php")
            .args(["-r", "exit(extension_loaded('apcu') ? 0 : 1);"])
            .status()?
            .success()
        {
            return Ok(None);
        }
        ini.push(("apc.enabled".to_owned(), "1".to_owned()));
    }
    let options = FpmOptions {
        workers: 1,
        ini,
        pool: vec![
            // Without quotes, `none` is an empty value.
            (
                "env[OBJECT_CACHE]".to_owned(),
                format!("\"{}\"", column.name()),
            ),
            (
                "env[OBJECT_CACHE_REDIS]".to_owned(),
                redis.socket().display().to_string(),
            ),
        ],
        ..FpmOptions::default()
    };
    Ok(Some(PhpFpm::start(&scratch.join(column.name()), &options)?))
}

/// The Galley with the object cache, which also answers the plugin of each column.
fn start_store(
    binary: &Path,
    scratch: &Scratch,
    roots: [&Path; 2],
    pools: &[(Column, PhpFpm)],
) -> Result<Galley, CommandError> {
    let token = scratch.write("site.token", TOKEN)?;
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600))?;
    let (_, php) = pools.last().ok_or("no PHP")?;
    let hosts: Vec<String> = Column::ALL.map(Column::host).into();
    let socket = scratch.join("admin.sock");
    let config = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:{}\"\n{}token_file = \"{}\"\n",
        socket.display(),
        site(&hosts, roots[0], php),
        token.display(),
    );
    let file = scratch.write("store.toml", config)?;
    let store = Galley::start_config(binary, &scratch.dir("store")?, &file)?;
    let connection = format!(
        "<?php return array( 'address' => 'unix:{}', 'token' => '{TOKEN}' );",
        socket.display()
    );
    for root in roots {
        fs::write(root.join("wp-content/galley-connection.php"), &connection)?;
    }
    Ok(store)
}

/// The Galley that all requests go to.
fn start_front<'a>(
    binary: &Path,
    scratch: &Scratch,
    root: impl Fn(Column) -> &'a Path,
    pools: &[(Column, PhpFpm)],
) -> Result<Galley, CommandError> {
    let mut config =
        "[server]\nlisten = [\"127.0.0.1:0\"]\nlimit_exempt = [\"127.0.0.1\"]\n[admin]\nlisten = \"off\"\n".to_owned();
    for (column, pool) in pools {
        config += &site(&[column.host()], root(*column), pool);
    }
    let file = scratch.write("front.toml", config)?;
    Ok(Galley::start_config(binary, &scratch.dir("front")?, &file)?)
}

/// The section of a site.
fn site(hosts: &[String], root: &Path, php: &PhpFpm) -> String {
    format!(
        "[[site]]\nhosts = {hosts:?}\nroot = \"{}\"\nphp = \"{}\"\ncron = \"off\"\naudit = false\n",
        root.display(),
        php.address()
    )
}

/// A machine on which PHP waits too long each time says nothing.
const MAX_ATTEMPTS: usize = 20;

/// The time in which a process that has something to do does some of it.
const PAUSE: Duration = Duration::from_millis(4);

/// The database has work of its own now and then.
const MAX_PAUSES: usize = 25;

const TOKEN: &str = "object-cache-of-the-measurement-0123456789";
const SHOP: &str = include_str!("../../../testkit/assets/object-cache/shop.php");
const DROP_IN: &str = include_str!("../../../testkit/assets/object-cache/object-cache.php");
const PEERS: &str = include_str!("../../../testkit/assets/object-cache/peers.php");
