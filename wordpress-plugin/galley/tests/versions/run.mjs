// Runs the plugin in every PHP and WordPress that npm carries: PHP as WebAssembly, WordPress with SQLite. No web server, no network.
//
//   node run.mjs                 every PHP with every WordPress
//   node run.mjs 7.4             one PHP
//   node run.mjs 7.4,8.4 6.2     some
//
// Each run activates the plugin, asks for pages as Galley does, edits, looks at what the plugin says of pages and purges, and at
// the notices that it is the cause of. Exit code 1 where anything is wrong. The packages are those of package-lock.json, 900 MB, in the
// folder that GALLEY_VERSIONS names: not below the plugin, which goes into the server's program.
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
const WORDPRESSES = readdirSync(join(builds, 'wordpress')).map((name) => /^wp-(.+)\.zip$/.exec(name)?.[1]).filter(Boolean);
const wanted = (argument, all) => (argument ? argument.split(',') : all);

/** Takes the packages' archives apart once: a folder per WordPress with the database drop-in, the plugin and the lab in it. */
function prepare(scratch, name) {
  const root = join(scratch, `wp-${name}`);
  unzip(join(builds, `wordpress/wp-${name}.zip`), root);
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
  for (const part of ['galley.php', 'uninstall.php', 'admin', 'includes', 'languages']) {
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

/** A PHP of one version with a copy of one WordPress at /wordpress, and the repository's tests beside it. */
async function start(version, root) {
  const php = new PHP(await loadNodeRuntime(version));
  php.mkdir('/wordpress');
  await php.mount('/wordpress', createNodeFsMountHandler(root));
  await php.setSapiName('fpm-fcgi');
  return php;
}

async function ask(php, heard, target, { method = 'GET', fields = {}, body, script = '/wordpress/index.php' } = {}) {
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
  const answer = await php.run({
    scriptPath: script,
    relativeUri: target,
    protocol: 'http',
    method,
    headers: { host: 'versions.test', 'Galley-Heard': [...heard].join(','), ...fields },
    body: body === undefined ? undefined : new TextEncoder().encode(body),
    $_SERVER: server,
  });
  // As Galley does: purges that have arrived are named in what comes after.
  for (const [, id] of (answer.headers['galley-purge'] ?? []).join().matchAll(/\bid=([0-9a-f]+)/g)) {
    heard.add(id);
  }
  return { status: answer.httpStatusCode, fields: answer.headers, text: answer.text, errors: answer.errors };
}

/** One combination; the list of what is wrong. */
async function run(version, root) {
  const wrong = [];
  const check = (is, words) => is || wrong.push(words);
  const notes = join(root, 'wp-content/lab-notes.txt');
  rmSync(notes, { force: true });
  const heard = new Set();
  let php = await start(version, root);
  // A PHP that has broken down in the middle of a request is of no use for the next.
  const asked = async (...words) => {
    try {
      return await ask(php, heard, ...words);
    } catch (error) {
      wrong.push(`${words[0]}: ${String(error.message ?? error).slice(0, 600)}`);
      php = await start(version, root);
      return { status: 0, fields: {}, text: '', errors: '' };
    }
  };
  for (const name of ['begin.php', 'edits.php']) {
    writeFileSync(join(root, name), readFileSync(join(here, name)));
  }
  const begun = await asked('/begin.php', { script: '/wordpress/begin.php' });
  check(begun.text.includes('WordPress '), `begin: ${begun.status} ${begun.text.slice(-600)} ${begun.errors.slice(-600)}`);
  const description = begun.text.trim();
  const post = /"id":(\d+),/.exec((await asked('/wp-json/wp/v2/posts?slug=spring-tide')).text)?.[1] ?? '0';
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
    const page = await asked(target, { fields: { 'Galley-Request': 'shared' } });
    const said = (page.fields['galley-tags'] ?? []).join(',').split(',');
    check(page.status === status, `${target}: status ${page.status} ${page.text.slice(0, 300)}`);
    for (const tag of tags) {
      check(said.includes(tag), `${target}: no tag ${tag} among ${said}`);
    }
    check((page.fields['galley-cache-control'] ?? []).join().includes('max-age='), `${target}: no lifetime: ${JSON.stringify(page.fields)}`);
  }
  const edit = await asked(`/wp-json/wp/v2/posts/${post}`, {
    method: 'POST',
    fields: { 'Galley-Request': 'whole', 'Lab-User': 'admin', 'content-type': 'application/json' },
    body: JSON.stringify({ title: 'Spring tide again' }),
  });
  const purges = (edit.fields['galley-purge'] ?? []).join(',').split(',');
  check(edit.status === 200, `edit: status ${edit.status} ${edit.text.slice(0, 300)}`);
  for (const purge of [`p${post}`, `pl${post}`]) {
    check(purges.includes(purge), `edit: no purge ${purge} among ${purges}`);
  }
  for (const [script, target] of [
    ['options-general.php', '/wp-admin/options-general.php?page=galley'],
    ['site-health.php', '/wp-admin/site-health.php'],
    ['index.php', '/wp-admin/index.php'],
  ]) {
    const page = await asked(target, { fields: { 'Galley-Request': 'whole', 'Lab-User': 'admin' }, script: `/wordpress/wp-admin/${script}` });
    check(page.status === 200 && page.text.includes('galley'), `${target}: status ${page.status} ${page.text.slice(0, 300)} ${page.errors.slice(0, 300)}`);
  }
  await checkEdits(asked, check);
  const noted = existsSync(notes) ? readFileSync(notes, 'utf8').trim().split('\n') : [];
  wrong.push(...new Set(noted));
  php.exit();
  return { description, wrong };
}

/** Parses every file of the plugin, and runs its unit tests, but for those that start programs, with the PHPUnit of the machine. */
async function units(version) {
  const php = new PHP(await loadNodeRuntime(version));
  for (const [at, from] of [['/usr/share/php', '/usr/share/php'], ['/plugin', plugin], ['/assets', resolve(plugin, '../assets')]]) {
    php.mkdir(at);
    await php.mount(at, createNodeFsMountHandler(from));
  }
  // What newer PHP has to say of PHPUnit's own code is not of interest; of the plugin's, the runs in WordPress tell.
  const code = `<?php
    error_reporting( E_ALL & ~E_DEPRECATED );
    set_include_path( '/usr/share/php' );
    foreach ( array( 'STDIN', 'STDOUT', 'STDERR' ) as $name ) { define( $name, fopen( 'STDIN' === $name ? 'php://memory' : 'php://output', 'w' ) ); }
    foreach ( array_merge( glob( '/plugin/*.php' ), glob( '/plugin/*/*.php' ) ) as $file ) { token_get_all( file_get_contents( $file ), TOKEN_PARSE ); }
    $_SERVER['argv'] = array( 'phpunit' );
    require 'PHPUnit/Autoload.php';
    $ended = ( new PHPUnit\\TextUI\\Command() )->run( array( 'phpunit', '--configuration', '/plugin/tests/phpunit.xml', '--do-not-cache-result', '--exclude-group', 'programs' ), false );
    echo "ENDED $ended";`;
  const said = await php.run({ code }).then((answer) => answer.text, (error) => String(error));
  php.exit();
  return said.includes('ENDED 0') ? [] : [said.slice(-2000)];
}

/** What each edit of edits.php has to order. */
async function checkEdits(asked, check) {
  const said = (await asked('/edits.php', { script: '/wordpress/edits.php', fields: { 'Galley-Request': 'whole' } })).text;
  const json = said.split('\nEDITS ')[1];
  if (!json) {
    check(false, `edits: ${said.slice(-800)}`);
    return;
  }
  const { post, term, menu, purges } = JSON.parse(json);
  const wanted = {
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
  // What is in the trash is on no page any more.
  check(Array.isArray(purges.deleted) && !purges.deleted.includes('l.post'), `edit deleted: ${purges.deleted}`);
  for (const [edit, tags] of Object.entries(wanted)) {
    for (const tag of tags) {
      check(purges[edit]?.includes(tag), `edit ${edit}: no purge ${tag} among ${purges[edit]}`);
    }
  }
}

const scratch = mkdtempSync(join(tmpdir(), 'galley-versions-'));
let failed = 0;
try {
  const roots = wanted(process.argv[3], WORDPRESSES).map((name) => [name, prepare(scratch, name)]);
  for (const version of wanted(process.argv[2], PHPS)) {
    const broken = await units(version);
    failed += broken.length > 0;
    console.log(`PHP ${version}, pure functions: ${broken.length ? 'WRONG' : 'fine'}`);
    broken.forEach((words) => console.log(words));
    for (const [name, clean] of roots) {
      const root = join(scratch, `run-${version}-${name}`);
      cpSync(clean, root, { recursive: true });
      const began = Date.now();
      const { description, wrong } = await run(version, root);
      rmSync(root, { recursive: true });
      failed += wrong.length > 0;
      console.log(`PHP ${version}, ${description || name}: ${wrong.length ? 'WRONG' : 'fine'} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
      wrong.forEach((words) => console.log(`    ${words}`));
    }
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);
