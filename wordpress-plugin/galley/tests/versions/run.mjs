// Tests the plugin with every PHP and WordPress version on npm, and WordPress of newer Debian releases: PHP as WebAssembly, WordPress with SQLite, no web server, no network.
//
//   node run.mjs                 every PHP with every WordPress
//   node run.mjs 7.4             one PHP
//   node run.mjs 7.4,8.4 6.2     selected versions; trixie and sid: WordPress of these Debian releases
//
// Each run activates the plugin, requests pages as Galley does, makes edits, and checks tags, lifetimes and purges, and that the
// plugin causes no notices. The exit code is 1 if a check fails. GALLEY_VERSIONS is the directory with the packages of
// package-lock.json (900 MB). It must be outside the plugin, because Galley embeds the plugin's directory.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const packages = resolve(process.env.GALLEY_VERSIONS ?? here);
const require = createRequire(join(packages, 'package.json'));
const { PHP } = await import(require.resolve('@php-wasm/universal').replace(/\.cjs$/, '.js'));
const { loadNodeRuntime, createNodeFsMountHandler } = await import(require.resolve('@php-wasm/node').replace(/\.cjs$/, '.js'));

const builds = join(packages, 'node_modules/@wp-playground/wordpress-builds/src');
const plugin = resolve(here, '../..');
const PHPS = ['7.4', '8.0', '8.1', '8.2', '8.3', '8.4'];
// Folders of `scripts/setup wordpress SUITE`: the WordPress of a Debian release, which is newer than those on npm.
const SUITES = resolve(packages, '../wordpress');
const suiteRoot = (name) => join(SUITES, name, 'root/usr/share/wordpress');
const WORDPRESSES = readdirSync(join(builds, 'wordpress')).map((name) => /^wp-(.+)\.zip$/.exec(name)?.[1]).filter(Boolean)
  .concat(existsSync(SUITES) ? readdirSync(SUITES).filter((name) => existsSync(join(suiteRoot(name), 'wp-load.php'))) : []);
const select = (argument, all) => (argument ? argument.split(',') : all);

/** Unpacks a WordPress and adds the database drop-in, the plugin and lab.php. */
function prepare(scratch, name) {
  const root = join(scratch, `wp-${name}`);
  if (existsSync(suiteRoot(name))) {
    cpSync(suiteRoot(name), root, { recursive: true, dereference: true });
    // Debian's own configuration reads /etc.
    cpSync(join(root, 'wp-config-sample.php'), join(root, 'wp-config.php'));
  } else {
    unzip(join(builds, `wordpress/wp-${name}.zip`), root);
  }
  const content = join(root, 'wp-content');
  const sqlite = join(content, 'plugins/sqlite-database-integration');
  unzip(join(builds, 'sqlite-database-integration/sqlite-database-integration.zip'), join(scratch, `sqlite-${name}`));
  cpSync(join(scratch, `sqlite-${name}/sqlite-database-integration-main`), sqlite, { recursive: true });
  const dropIn = readFileSync(join(sqlite, 'db.copy'), 'utf8');
  writeFileSync(
    join(content, 'db.php'),
    dropIn.replaceAll('{SQLITE_IMPLEMENTATION_FOLDER_PATH}', '/wordpress/wp-content/plugins/sqlite-database-integration')
      .replaceAll('{SQLITE_PLUGIN}', 'sqlite-database-integration/load.php'),
  );
  mkdirSync(join(content, 'mu-plugins'), { recursive: true });
  cpSync(join(here, 'lab.php'), join(content, 'mu-plugins/lab.php'));
  for (const part of ['galley.php', 'uninstall.php', 'admin', 'includes', 'languages', 'object-cache']) {
    cpSync(join(plugin, part), join(content, 'plugins/galley', part), { recursive: true });
  }
  const config = join(root, 'wp-config.php');
  const text = readFileSync(config, 'utf8').replace(
    "define( 'WP_DEBUG', false );",
    "define( 'WP_DEBUG', true ); define( 'WP_DEBUG_DISPLAY', false ); define( 'WP_HTTP_BLOCK_EXTERNAL', true ); define( 'DISABLE_WP_CRON', true ); define( 'AUTOMATIC_UPDATER_DISABLED', true );",
  );
  writeFileSync(config, text);
  return root;
}

function unzip(archive, to) {
  mkdirSync(to, { recursive: true });
  execFileSync('php', ['-r', '$z = new ZipArchive(); exit($z->open($argv[1]) === true && $z->extractTo($argv[2]) ? 0 : 1);', '--', archive, to]);
}

/** Starts a PHP version with a copy of a WordPress at /wordpress. */
async function start(version, root) {
  const php = new PHP(await loadNodeRuntime(version));
  php.mkdir('/wordpress');
  await php.mount('/wordpress', createNodeFsMountHandler(root));
  await php.setSapiName('fpm-fcgi');
  return php;
}

async function sendRequest(php, acknowledged, target, { method = 'GET', fields = {}, body, script = '/wordpress/index.php' } = {}) {
  const server = {
    HTTP_HOST: 'versions.test',
    SERVER_NAME: 'versions.test',
    SERVER_PORT: '80',
    SERVER_PROTOCOL: 'HTTP/1.1',
    REMOTE_ADDR: '127.0.0.1',
    DOCUMENT_ROOT: '/wordpress',
    SCRIPT_NAME: script.replace('/wordpress', ''),
    PHP_SELF: script.replace('/wordpress', ''),
    QUERY_STRING: target.split('?')[1] ?? '',
  };
  const response = await php.run({
    scriptPath: script,
    relativeUri: target,
    protocol: 'http',
    method,
    headers: { host: 'versions.test', 'Galley-Acknowledged': [...acknowledged].join(','), ...fields },
    body: body === undefined ? undefined : new TextEncoder().encode(body),
    $_SERVER: server,
  });
  // Like Galley, acknowledges received purges in the next request.
  for (const [, id] of (response.headers['galley-purge'] ?? []).join().matchAll(/\bid=([0-9a-f]+)/g)) {
    acknowledged.add(id);
  }
  return { status: response.httpStatusCode, fields: response.headers, text: response.text, errors: response.errors };
}

/** Tests one combination and returns the failures. */
async function run(version, root) {
  const failures = [];
  const check = (passed, message) => passed || failures.push(message);
  const notes = join(root, 'wp-content/lab-notes.txt');
  rmSync(notes, { force: true });
  const acknowledged = new Set();
  let php = await start(version, root);
  // After a crash, PHP must be restarted for the next request.
  const request = async (...args) => {
    try {
      return await sendRequest(php, acknowledged, ...args);
    } catch (error) {
      failures.push(`${args[0]}: ${String(error.message ?? error).slice(0, 600)}`);
      php = await start(version, root);
      return { status: 0, fields: {}, text: '', errors: '' };
    }
  };
  for (const name of ['setup.php', 'edits.php']) {
    writeFileSync(join(root, name), readFileSync(join(here, name)));
  }
  // The packages on npm contain an installed WordPress.
  writeFileSync(join(root, 'install.php'), `<?php define( 'WP_INSTALLING', true ); require 'wp-load.php'; require 'wp-admin/includes/upgrade.php';
    if ( ! is_blog_installed() ) { wp_install( 'Versions', 'admin', 'admin@versions.test', true, '', 'password' ); }`);
  await request('/install.php', { script: '/wordpress/install.php' });
  const setup = await request('/setup.php', { script: '/wordpress/setup.php' });
  check(setup.text.includes('WordPress '), `setup: ${setup.status} ${setup.text.slice(-600)} ${setup.errors.slice(-600)}`);
  const description = setup.text.trim();
  const post = /"id":(\d+),/.exec((await request('/wp-json/wp/v2/posts?slug=spring-tide')).text)?.[1] ?? '0';
  for (const [target, status, tags] of [
    ['/', 200, ['b', `pl${post}`, 'op.blogname']],
    ['/spring-tide/', 200, ['b', `p${post}`, 'u1', `c${post}`]],
    ['/sample-page/', 200, ['b', 'p2']],
    ['/category/tides/', 200, ['b', `pl${post}`]],
    ['/author/admin/', 200, ['b', 'u1']],
    ['/feed/', 200, ['b', `p${post}`, 'u1']],
    ['/comments/feed/', 200, ['b', 'f']],
    ['/wp-json/wp/v2/posts', 200, ['b', `p${post}`]],
    ['/wp-sitemap.xml', 200, ['b', 'sm.index']],
    ['/nowhere/', 404, ['b', 'e404']],
  ]) {
    const page = await request(target, { fields: { 'Galley-Request': 'shared' } });
    const received = (page.fields['galley-tags'] ?? []).join(',').split(',');
    check(page.status === status, `${target}: status ${page.status} ${page.text.slice(0, 300)}`);
    for (const tag of tags) {
      check(received.includes(tag), `${target}: no tag ${tag} in ${received}`);
    }
    check((page.fields['galley-cache-control'] ?? []).join().includes('max-age='), `${target}: no lifetime: ${JSON.stringify(page.fields)}`);
  }
  const edit = await request(`/wp-json/wp/v2/posts/${post}`, {
    method: 'POST',
    fields: { 'Galley-Request': 'whole', 'Lab-User': 'admin', 'content-type': 'application/json' },
    body: JSON.stringify({ title: 'Spring tide again' }),
  });
  const purges = (edit.fields['galley-purge'] ?? []).join(',').split(',');
  check(edit.status === 200, `edit: status ${edit.status} ${edit.text.slice(0, 300)}`);
  for (const purge of [`p${post}`, `pl${post}`]) {
    check(purges.includes(purge), `edit: no purge ${purge} in ${purges}`);
  }
  for (const [script, target] of [
    ['options-general.php', '/wp-admin/options-general.php?page=galley'],
    ['site-health.php', '/wp-admin/site-health.php'],
    ['index.php', '/wp-admin/index.php'],
  ]) {
    const page = await request(target, { fields: { 'Galley-Request': 'whole', 'Lab-User': 'admin' }, script: `/wordpress/wp-admin/${script}` });
    check(page.status === 200 && page.text.includes('galley'), `${target}: status ${page.status} ${page.text.slice(0, 300)} ${page.errors.slice(0, 300)}`);
  }
  await checkEdits(request, check);
  const notices = existsSync(notes) ? readFileSync(notes, 'utf8').trim().split('\n') : [];
  failures.push(...new Set(notices));
  php.exit();
  return { description, failures };
}

/** Parses every file of the plugin, and runs its unit tests with the installed PHPUnit, except tests that start programs. */
async function runUnitTests(version) {
  const php = new PHP(await loadNodeRuntime(version));
  // The plugin takes no command for a visitor; the name of this build is `wasm`.
  await php.setSapiName('cli');
  for (const [target, source] of [['/usr/share/php', '/usr/share/php'], ['/plugin', plugin], ['/assets', resolve(plugin, '../assets')]]) {
    php.mkdir(target);
    await php.mount(target, createNodeFsMountHandler(source));
  }
  // Deprecation notices of PHPUnit's code are ignored. The runs in WordPress report those of the plugin.
  const code = `<?php
    error_reporting( E_ALL & ~E_DEPRECATED );
    set_include_path( '/usr/share/php' );
    foreach ( array( 'STDIN', 'STDOUT', 'STDERR' ) as $name ) { define( $name, fopen( 'STDIN' === $name ? 'php://memory' : 'php://output', 'w' ) ); }
    foreach ( array_merge( glob( '/plugin/*.php' ), glob( '/plugin/*/*.php' ) ) as $file ) { token_get_all( file_get_contents( $file ), TOKEN_PARSE ); }
    $_SERVER['argv'] = array( 'phpunit' );
    require 'PHPUnit/Autoload.php';
    $ended = ( new PHPUnit\\TextUI\\Command() )->run( array( 'phpunit', '--configuration', '/plugin/tests/phpunit.xml', '--do-not-cache-result', '--exclude-group', 'programs' ), false );
    echo "ENDED $ended";`;
  const output = await php.run({ code }).then((response) => response.text, (error) => String(error));
  php.exit();
  return output.includes('ENDED 0') ? [] : [output.slice(-6000)];
}

/** Checks the purges of each edit of edits.php. */
async function checkEdits(request, check) {
  const output = (await request('/edits.php', { script: '/wordpress/edits.php', fields: { 'Galley-Request': 'whole' } })).text;
  const json = output.split('\nEDITS ')[1];
  if (!json) {
    check(false, `edits: ${output.slice(-800)}`);
    return;
  }
  const { post, term, menu, purges } = JSON.parse(json);
  const expected = {
    text: [`p${post}`],
    field: [`pm${post}`],
    sticky: ['st', `sk${post}`],
    comment: [`c${post}`, `cn${post}`],
    'comment-text': [`c${post}`],
    'comment-gone': [`c${post}`, `cn${post}`],
    term: [`t${term}`, `tl${term}`],
    user: ['u1', 'lu'],
    name: ['op.blogname'],
    'per-page': ['op.posts_per_page'],
    widgets: ['sb.sidebar-1'],
    menu: [`m${menu}`],
    'menu-item': [`m${menu}`],
    template: ['tp.single'],
    slug: [`p${post}`, `pl${post}`, 'n.neap-tide'],
    trash: [`p${post}`, 'l.post'],
    'term-gone': [`t${term}`, 'lta.category'],
    permalinks: ['b'],
    theme: ['b'],
    update: ['b'],
  };
  // Deleting a post from the trash affects no public page.
  check(Array.isArray(purges.deleted) && !purges.deleted.includes('l.post'), `edit deleted: ${purges.deleted}`);
  for (const [edit, tags] of Object.entries(expected)) {
    for (const tag of tags) {
      check(purges[edit]?.includes(tag), `edit ${edit}: no purge ${tag} in ${purges[edit]}`);
    }
  }
}

const scratch = mkdtempSync(join(tmpdir(), 'galley-versions-'));
let failed = 0;
try {
  const roots = select(process.argv[3], WORDPRESSES).map((name) => [name, prepare(scratch, name)]);
  for (const version of select(process.argv[2], PHPS)) {
    const unitFailures = await runUnitTests(version);
    failed += unitFailures.length > 0;
    console.log(`PHP ${version}, pure functions: ${unitFailures.length ? 'FAILED' : 'ok'}`);
    unitFailures.forEach((message) => console.log(message));
    for (const [name, clean] of roots) {
      const root = join(scratch, `run-${version}-${name}`);
      cpSync(clean, root, { recursive: true });
      const startedAt = Date.now();
      const { description, failures } = await run(version, root);
      rmSync(root, { recursive: true });
      failed += failures.length > 0;
      console.log(`PHP ${version}, ${description || name}: ${failures.length ? 'FAILED' : 'ok'} (${((Date.now() - startedAt) / 1000).toFixed(1)} s)`);
      failures.forEach((message) => console.log(`    ${message}`));
    }
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);
