//! The lists of names that are never sent. All are in lower case; `deny` ignores case.
//!
//! Scanners request each of them from every site, and have found them on real ones: keys, passwords, dumps, copies that
//! editors and people leave behind, settings of tools, archives of whole sites, directories of backup plugins.

/// Endings that people and tools append to the name of a file when they copy, compress or number it. The name without
/// them is checked as well: `dump.sql.gz`, `id_rsa.txt`, `debug.log.old`.
pub(super) const COPY_ENDINGS: &[&[u8]] = &[
    b"7z",
    b"back",
    b"backup",
    b"bak",
    b"bk",
    b"bkp",
    b"br",
    b"bz2",
    b"copy",
    b"dist",
    b"gz",
    b"lz",
    b"lz4",
    b"lzma",
    b"new",
    b"old",
    b"orig",
    b"original",
    b"rar",
    b"save",
    b"src",
    b"swp",
    b"tar",
    b"tbz",
    b"tbz2",
    b"tgz",
    b"tmp",
    b"txt",
    b"txz",
    b"xz",
    b"z",
    b"zip",
    b"zst",
];

/// Names that are private in every directory.
pub(super) const PRIVATE_NAMES: &[&[u8]] = &[
    b"credentials.json",
    b"database.yml",
    b"error_log",
    b"filezilla.xml",
    b"parameters.yml",
    b"php_errorlog",
    b"recentservers.xml",
    b"secrets.json",
    b"secrets.yml",
    b"service-account.json",
    b"sftp-config.json",
    b"sftp.json",
    b"sitemanager.xml",
    b"web.config",
    b"wp-cli.local.yml",
    b"wp-cli.yml",
];

/// Endings that are private in every directory.
pub(super) const PRIVATE_ENDINGS: &[&[u8]] = &[
    b"~",
    // Copies.
    b".back",
    b".backup",
    b".bak",
    b".bk",
    b".bkp",
    b".old",
    b".orig",
    b".original",
    b".rej",
    b".save",
    b".swn",
    b".swo",
    b".swp",
    b".tmp",
    // Databases and their dumps, logs.
    b".db",
    b".dmp",
    b".dump",
    b".ldf",
    b".log",
    b".mdf",
    b".sql",
    // Settings.
    b".cnf",
    b".conf",
    b".env",
    b".htaccess",
    b".htpasswd",
    b".ini",
    b".passwd",
    b".tfstate",
    b".tfvars",
    // Keys.
    b".jks",
    b".kdb",
    b".kdbx",
    b".keystore",
    b".ovpn",
    b".p12",
    b".p8",
    b".pem",
    b".pfx",
    b".ppk",
    // Archives of whole sites, made by plugins.
    b".bkf",
    b".daf",
    b".jpa",
    b".jps",
    b".wpress",
    b".wpstg",
];

/// Names that are also ordinary words in URLs: private only if a file has them, and as copies.
pub(super) const PRIVATE_WORDS: &[&[u8]] = &[
    b"access_log",
    b"authorized_keys",
    b"credentials",
    b"dockerfile",
    b"env",
    b"htaccess",
    b"htpasswd",
    b"id_dsa",
    b"id_ecdsa",
    b"id_ed25519",
    b"id_rsa",
    b"jenkinsfile",
    b"known_hosts",
    b"passwd",
    b"password",
    b"passwords",
    b"php_error_log",
    b"procfile",
    b"secrets",
    b"shadow",
    b"vagrantfile",
    b"wp-config",
];

/// Names of environments, as in `env.local`.
pub(super) const ENVIRONMENTS: &[&[u8]] = &[
    b"dev",
    b"development",
    b"example",
    b"live",
    b"local",
    b"prod",
    b"production",
    b"sample",
    b"stage",
    b"staging",
    b"test",
    b"testing",
];

/// Files from which a site is built. Private only in the root directory: below it they belong to published packages.
pub(super) const ROOT_MANIFESTS: &[&[u8]] = &[
    b"auth.json",
    b"bower.json",
    b"compose.yaml",
    b"compose.yml",
    b"composer.json",
    b"composer.lock",
    b"gemfile.lock",
    b"npm-shrinkwrap.json",
    b"package-lock.json",
    b"package.json",
    b"phpunit.xml",
    b"pipfile.lock",
    b"pnpm-lock.yaml",
    b"symfony.lock",
    b"yarn.lock",
];

/// Archives of many files.
pub(super) const ARCHIVES: &[&[u8]] = &[
    b"7z", b"cpio", b"rar", b"tar", b"tbz", b"tbz2", b"tgz", b"txz", b"tzst", b"zip",
];

/// Compressed files: also archives, unless the compressed file is one that browsers show, such as `sitemap.xml.gz`.
pub(super) const PACKED: &[&[u8]] = &[b"bz2", b"gz", b"lz", b"lz4", b"lzma", b"xz", b"z", b"zst"];

/// Files that editors upload for others, although they would be secret elsewhere: presentations, office databases.
pub(super) const UPLOADED: &[&[u8]] = &[b"accdb", b"key", b"mdb"];

/// Programs that Galley does not run, so they would be sent as text.
pub(super) const PROGRAMS: &[&[u8]] = &[
    b"asp", b"aspx", b"bash", b"cfm", b"cgi", b"jsp", b"pl", b"ps1", b"py", b"pyc", b"rb", b"sh",
];

/// Prefixes of directories in `wp-content` to which backup and firewall plugins write.
pub(super) const PRIVATE_FOLDERS: &[&[u8]] = &[
    b"ai1wm-backups",
    b"backup",
    b"database",
    b"db-backup",
    b"envato-backups",
    b"infinitewp",
    b"managewp",
    b"nfwlog",
    b"updraft",
    b"wflogs",
    b"wp-clone",
    b"wp-snapshots",
    b"wpbackitup",
    b"wpvivid",
];

/// Prefixes of such directories in `wp-content/uploads`.
pub(super) const PRIVATE_UPLOADS: &[&[u8]] = &[
    b"backup-guard",
    b"backupbuddy_",
    b"backwpup-",
    b"db-backup",
    b"ithemes-security",
    b"pb_backupbuddy",
    b"prime-mover-export-files",
    b"snapshots",
    b"sucuri",
    b"wc-logs",
    b"wp-clone",
    b"wp-file-manager-pro",
    b"wp-migrate-db",
    b"wp-staging",
    b"wpvivid",
];

/// Directories of `wp-content` with uploaded or generated files.
pub(super) const WRITABLE: &[&[u8]] = &[
    b"blogs.dir",
    b"cache",
    b"upgrade",
    b"upgrade-temp-backup",
    b"uploads",
];

/// Scripts below `wp-includes` that are meant to be requested.
pub(super) const CORE_ENTRANCES: &[&[u8]] = &[b"js/tinymce/wp-tinymce.php", b"ms-files.php"];
