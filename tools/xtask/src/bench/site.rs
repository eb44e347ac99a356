//! The site that all contenders serve: WordPress with its database, additional scripts and files, and a folder of static copies
//! for servers without a page cache.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use galley_testkit::{Cron, MariaDb, Options, SampleContent, wordpress_from_template};

use super::settings::Page;
use crate::error::CommandError;

/// The site. Dropping it stops the database.
#[derive(Debug)]
pub(super) struct Site {
    database: MariaDb,
    root: PathBuf,
    statics: PathBuf,
    post: String,
    post_mark: String,
}

/// The expected body of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExpectedBody {
    /// Text that contains all of these strings.
    Marks(Vec<String>),
    /// Exactly these bytes.
    Bytes(Vec<u8>),
}

impl Site {
    /// Starts the database, and installs the sample site under `host` with the scripts and files of the benchmark.
    pub(super) fn start(dir: &Path, host: &str) -> Result<Self, CommandError> {
        let options = Options {
            url: Some(format!("http://{host}")),
            sample: SampleContent::Full,
            cron: Cron::Off,
            ..Options::default()
        };
        let (database, wordpress) = wordpress_from_template(&dir.join("site"), &options)?;
        let output = wordpress.php(FIND_POST)?;
        let (post, id) = output
            .split_once(' ')
            .ok_or_else(|| format!("WordPress returned no post: {output}"))?;
        let root = wordpress.root;
        for (name, text) in SCRIPTS {
            fs::write(root.join(name), text)?;
        }
        let index = root.join("index.php");
        let original = fs::read_to_string(&index)?;
        fs::write(&index, original.replacen("<?php", ROUTER, 1))?;
        fs::write(root.join("ten.txt"), letters(TEN_BYTES))?;
        fs::write(root.join("long.txt"), letters(LONG_BYTES))?;
        fs::write(root.join("thirteen.html"), THIRTEEN)?;
        for (name, length) in FILES {
            fs::write(root.join(name), noise(length))?;
        }
        let count = root.join(COUNT);
        fs::write(&count, "")?;
        fs::set_permissions(&count, fs::Permissions::from_mode(0o666))?;
        let statics = dir.join("static");
        fs::create_dir_all(&statics)?;
        let names = FILES.iter().map(|(name, _)| *name);
        for name in names.chain(["thirteen.html"]) {
            fs::hard_link(root.join(name), statics.join(name))?;
        }
        for (name, length) in [("ten", TEN_BYTES), ("long", LONG_BYTES)] {
            fs::create_dir_all(statics.join(name))?;
            fs::write(statics.join(name).join("index.html"), letters(length))?;
        }
        precompress(&statics.join("long/index.html"))?;
        Ok(Self {
            database,
            root,
            statics,
            post: post.to_owned(),
            post_mark: format!("postid-{id}"),
        })
    }

    /// The document root.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The document root of servers without a page cache. It has the page as a file, plain and precompressed.
    pub(super) fn statics(&self) -> &Path {
        &self.statics
    }

    /// Process id of the database.
    pub(super) fn database(&self) -> u32 {
        self.database.pid()
    }

    /// The path of a page.
    pub(super) fn target(&self, page: Page) -> &str {
        match page {
            Page::Thirteen => "/thirteen.html",
            Page::Ten => "/ten/",
            Page::Long => "/long/",
            Page::Post => &self.post,
            Page::Hello => "/hello/",
            Page::Fifty => "/50k.jpg",
            Page::ThreeHundred => "/300k.jpg",
            Page::Image => "/image.jpg",
            Page::TenMega => "/10m.jpg",
            Page::Large => "/large.bin",
            Page::Pages => "/pages/",
            Page::Stampede => "/stampede/",
            Page::Slow => "/slow/miss",
            Page::Refresh => "/slow/refresh",
            Page::Purged => "/slow/purged",
        }
    }

    /// The expected decoded body of a page. `number` selects one of [`Page::Pages`].
    pub(super) fn expected_body(
        &self,
        page: Page,
        number: usize,
    ) -> Result<ExpectedBody, CommandError> {
        let marks = |marks: &[&str]| {
            ExpectedBody::Marks(marks.iter().map(|mark| (*mark).to_owned()).collect())
        };
        Ok(match page {
            Page::Thirteen => ExpectedBody::Bytes(THIRTEEN.to_vec()),
            Page::Ten => ExpectedBody::Bytes(letters(TEN_BYTES)),
            Page::Long => ExpectedBody::Bytes(letters(LONG_BYTES)),
            Page::Post => marks(&[&self.post_mark, "</html>"]),
            Page::Hello => ExpectedBody::Bytes(HELLO.to_vec()),
            Page::Fifty | Page::ThreeHundred | Page::Image | Page::TenMega | Page::Large => {
                let name = self.target(page).trim_start_matches('/');
                ExpectedBody::Bytes(fs::read(self.root.join(name))?)
            }
            Page::Pages => marks(&[&format!("<h1>Page {number}</h1>"), "</html>"]),
            Page::Stampede => marks(&["<h1>Generated</h1>", "</html>"]),
            Page::Slow | Page::Refresh => marks(&["slow", "</html>"]),
            Page::Purged => ExpectedBody::Marks(Vec::new()),
        })
    }

    /// Writes the page to the folder of static copies: plain, gzip -9 and brotli -q 11.
    pub(super) fn copy_post(&self, html: &[u8]) -> Result<(), CommandError> {
        let folder = self.statics.join(self.post.trim_matches('/'));
        fs::create_dir_all(&folder)?;
        let file = folder.join("index.html");
        fs::write(&file, html)?;
        precompress(&file)
    }

    /// The duration of each generation of a stampede page, in milliseconds, as its script recorded them.
    pub(super) fn generations(&self, name: &str) -> Result<Vec<f64>, CommandError> {
        let text = fs::read_to_string(self.root.join(COUNT))?;
        Ok(text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(other, _)| *other == name)
            .filter_map(|(_, ms)| ms.parse().ok())
            .collect())
    }
}

/// Writes `gzip -9` and `brotli -q 11` of a file beside it.
fn precompress(file: &Path) -> Result<(), CommandError> {
    for [program, options] in [["gzip", "-9kf"], ["brotli", "-Zkf"]] {
        let status = Command::new(program)
            .arg(options)
            .arg(file)
            .stdin(Stdio::null())
            .status()
            .map_err(|error| format!("`{program}`: {error}: run `scripts/setup bench`"))?;
        if !status.success() {
            return Err(format!("`{program}` failed").into());
        }
    }
    Ok(())
}

/// Incompressible bytes, the same in every run.
fn noise(count: usize) -> Vec<u8> {
    let mut state: u64 = 0x0123_4567_89AB_CDEF;
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}

/// A page of exactly this many bytes that compresses badly: to about 60 %.
fn letters(length: usize) -> Vec<u8> {
    let (head, tail) = (
        &b"<!doctype html><html><body><p>"[..],
        &b"</p></body></html>\n"[..],
    );
    let text = noise(length - head.len() - tail.len());
    let letters = text.iter().map(|byte| b'A' + byte % 26);
    head.iter()
        .copied()
        .chain(letters)
        .chain(tail.iter().copied())
        .collect()
}

/// One of the newer posts, always the same.
const FIND_POST: &str = "$post = get_posts( array( 'numberposts' => 1, 'offset' => 4 ) )[0]; \
     echo wp_make_link_relative( get_permalink( $post ) ), ' ', $post->ID;";
/// The length of the responses in the published comparison.
const HELLO: &[u8] = b"<html><body>Hello World!</body></html>\n";
const THIRTEEN: &[u8] = b"Hello, World\n";
const TEN_BYTES: usize = 10_240;
/// As gzip about 47,000 bytes.
const LONG_BYTES: usize = 78_000;
/// Files that cannot be compressed, and their lengths.
const FILES: [(&str, usize); 5] = [
    ("50k.jpg", 50_000),
    ("300k.jpg", 300_000),
    ("image.jpg", 1_000_000),
    ("10m.jpg", 10_000_000),
    ("large.bin", 120_000_000),
];
const COUNT: &str = "stampede.log";
/// Prepended to WordPress's index.php: the benchmark's pages have URLs like those of WordPress, so that every contender treats
/// them alike, but do not load WordPress.
const ROUTER: &str = "<?php
if ( preg_match( '~^/(hello|pages|stampede|ten|long)/~', $_SERVER['REQUEST_URI'], $bench ) ) {
    require __DIR__ . '/bench-' . $bench[1] . '.php';
    exit;
}
";
/// They set a lifetime, because not every contender has a default lifetime.
const SCRIPTS: [(&str, &str); 5] = [
    (
        "bench-ten.php",
        "<?php header( 'Cache-Control: public, max-age=3600' ); readfile( __DIR__ . '/ten.txt' );\n",
    ),
    (
        "bench-long.php",
        "<?php header( 'Cache-Control: public, max-age=3600' ); readfile( __DIR__ . '/long.txt' );\n",
    ),
    (
        "bench-hello.php",
        "<?php header( 'Cache-Control: public, max-age=3600' ); echo '<html><body>Hello World!</body></html>', \"\\n\";\n",
    ),
    (
        "bench-pages.php",
        "<?php
header( 'Cache-Control: public, max-age=3600' );
$n = (int) ( $_GET['n'] ?? 0 );
mt_srand( $n );
echo \"<!doctype html><html><head><title>Page $n</title></head><body><h1>Page $n</h1>\\n\";
$words = array( 'tide', 'harbour', 'sail', 'rope', 'lantern', 'gull', 'anchor', 'mist', 'pier', 'current', 'shore', 'net' );
for ( $p = 0; $p < 30; $p++ ) {
    echo '<p>';
    for ( $w = 0; $w < 50; $w++ ) {
        echo $words[ mt_rand( 0, 11 ) ], ' ';
    }
    echo \"</p>\\n\";
}
echo '</body></html>';
",
    ),
    (
        "bench-stampede.php",
        "<?php
$began = hrtime( true );
header( 'Cache-Control: public, max-age=1, stale-while-revalidate=0, must-revalidate' );
usleep( 300000 );
echo '<!doctype html><html><head><title>Slow</title></head><body><h1>Generated</h1>', \"\\n\";
for ( $p = 0; $p < 100; $p++ ) {
    echo \"<p>Paragraph $p of a page that took its time, as pages do that ask a database much.</p>\\n\";
}
echo '</body></html>';
$line = ( $_GET['n'] ?? '' ) . ' ' . ( hrtime( true ) - $began ) / 1e6 . \"\\n\";
file_put_contents( __DIR__ . '/stampede.log', $line, FILE_APPEND | LOCK_EX );
",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_reproducible_and_does_not_repeat() {
        assert_eq!(noise(20), noise(20));
        assert_eq!(noise(13).len(), 13);
        assert_ne!(noise(16)[..8], noise(16)[8..]);
    }
}
