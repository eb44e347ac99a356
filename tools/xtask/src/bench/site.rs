//! What all contenders serve: a WordPress with its database, some scripts and files beside it, and the folder of static
//! copies for those that can only serve files.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use galley_testkit::{Cron, MariaDb, Options, SampleContent, wordpress_from_template};

use super::plan::Page;
use crate::demo::CommandError;

/// The site; the database ends with it.
#[derive(Debug)]
pub(super) struct Site {
    database: MariaDb,
    root: PathBuf,
    statics: PathBuf,
    post: String,
    post_mark: String,
}

/// What a body must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expected {
    /// Text that holds all of these.
    Marks(Vec<String>),
    /// These bytes.
    Bytes(Vec<u8>),
}

impl Site {
    /// Starts the database and the sample site under `host`, and writes what the bench adds to it.
    pub(super) fn start(dir: &Path, host: &str) -> Result<Self, CommandError> {
        let options = Options {
            url: Some(format!("http://{host}")),
            sample: SampleContent::Full,
            cron: Cron::Off,
            ..Options::default()
        };
        let (database, wordpress) = wordpress_from_template(&dir.join("site"), &options)?;
        let said = wordpress.php(FIND_POST)?;
        let (post, id) = said
            .split_once(' ')
            .ok_or_else(|| format!("WordPress names no post: {said}"))?;
        let root = wordpress.root;
        for (name, text) in SCRIPTS {
            fs::write(root.join(name), text)?;
        }
        let index = root.join("index.php");
        let own = fs::read_to_string(&index)?;
        fs::write(&index, own.replacen("<?php", FRONT, 1))?;
        fs::write(root.join("ten.txt"), ten())?;
        fs::write(root.join("thirteen.html"), THIRTEEN)?;
        fs::write(root.join("image.jpg"), noise(IMAGE_BYTES))?;
        fs::write(root.join("large.bin"), noise(LARGE_BYTES))?;
        let count = root.join(COUNT);
        fs::write(&count, "")?;
        fs::set_permissions(&count, fs::Permissions::from_mode(0o666))?;
        let statics = dir.join("static");
        fs::create_dir_all(&statics)?;
        for name in ["thirteen.html", "image.jpg", "large.bin"] {
            fs::hard_link(root.join(name), statics.join(name))?;
        }
        fs::create_dir_all(statics.join("ten"))?;
        fs::write(statics.join("ten/index.html"), ten())?;
        Ok(Self {
            database,
            root,
            statics,
            post: post.to_owned(),
            post_mark: format!("postid-{id}"),
        })
    }

    /// The folder that servers take as document root.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder for those that serve files only: the page lies in it, plain and compressed beforehand.
    pub(super) fn statics(&self) -> &Path {
        &self.statics
    }

    /// Process id of the database.
    pub(super) fn database(&self) -> u32 {
        self.database.pid()
    }

    /// The path with a question mark and all that comes before a counter, if there is one.
    pub(super) fn target(&self, page: Page) -> &str {
        match page {
            Page::Thirteen => "/thirteen.html",
            Page::Ten => "/ten/",
            Page::Post => &self.post,
            Page::Hello => "/hello/",
            Page::Image => "/image.jpg",
            Page::Large => "/large.bin",
            Page::Pages => "/pages/",
            Page::Stampede => "/stampede/",
            Page::Slow => "/slow/miss",
            Page::Refresh => "/slow/refresh",
            Page::Purged => "/slow/purged",
        }
    }

    /// What an answer's body must be, decoded; `number` is that of the page, where there are several.
    pub(super) fn expected(&self, page: Page, number: usize) -> Result<Expected, CommandError> {
        let marks =
            |marks: &[&str]| Expected::Marks(marks.iter().map(|mark| (*mark).to_owned()).collect());
        Ok(match page {
            Page::Thirteen => Expected::Bytes(THIRTEEN.to_vec()),
            Page::Ten => Expected::Bytes(ten()),
            Page::Post => marks(&[&self.post_mark, "</html>"]),
            Page::Hello => Expected::Bytes(HELLO.to_vec()),
            Page::Image => Expected::Bytes(fs::read(self.root.join("image.jpg"))?),
            Page::Large => Expected::Bytes(fs::read(self.root.join("large.bin"))?),
            Page::Pages => marks(&[&format!("<h1>Page {number}</h1>"), "</html>"]),
            Page::Stampede => marks(&["<h1>Generated</h1>", "</html>"]),
            Page::Slow | Page::Refresh => marks(&["slow", "</html>"]),
            Page::Purged => Expected::Marks(Vec::new()),
        })
    }

    /// Puts the page into the folder of static copies, plain, as gzip -9 and as brotli -q 11.
    pub(super) fn copy_post(&self, html: &[u8]) -> Result<(), CommandError> {
        let folder = self.statics.join(self.post.trim_matches('/'));
        fs::create_dir_all(&folder)?;
        let file = folder.join("index.html");
        fs::write(&file, html)?;
        for line in [["gzip", "-9kf"], ["brotli", "-Zkf"]] {
            let [program, how] = line;
            let status = Command::new(program)
                .arg(how)
                .arg(&file)
                .stdin(Stdio::null())
                .status()
                .map_err(|error| format!("`{program}`: {error}: run `scripts/setup bench`"))?;
            if !status.success() {
                return Err(format!("`{program}` failed").into());
            }
        }
        Ok(())
    }

    /// What the script of the stampede has noted for one page: how long each of its runs took, in milliseconds.
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

/// Bytes that do not compress, the same in every run.
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

/// A page that does not compress well, of exactly 10,240 bytes.
fn ten() -> Vec<u8> {
    let (head, tail) = (
        &b"<!doctype html><html><body><p>"[..],
        &b"</p></body></html>\n"[..],
    );
    let text = noise(TEN_BYTES - head.len() - tail.len());
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
/// As long as the answers of the published comparison were.
const HELLO: &[u8] = b"<html><body>Hello World!</body></html>\n";
const THIRTEEN: &[u8] = b"Hello, World\n";
const TEN_BYTES: usize = 10_240;
const IMAGE_BYTES: usize = 1_000_000;
const LARGE_BYTES: usize = 120_000_000;
const COUNT: &str = "stampede.log";
/// In front of WordPress's own index.php: pages of the bench have addresses as WordPress's pages have, so that every contender
/// takes them for such, but do not need all of WordPress.
const FRONT: &str = "<?php
if ( preg_match( '~^/(hello|pages|stampede|ten)/~', $_SERVER['REQUEST_URI'], $bench ) ) {
    require __DIR__ . '/bench-' . $bench[1] . '.php';
    exit;
}
";
/// They say how long they live, since not every contender invents a lifetime.
const SCRIPTS: [(&str, &str); 4] = [
    (
        "bench-ten.php",
        "<?php header( 'Cache-Control: public, max-age=3600' ); readfile( __DIR__ . '/ten.txt' );\n",
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
    fn noise_is_the_same_and_does_not_repeat() {
        assert_eq!(noise(20), noise(20));
        assert_eq!(noise(13).len(), 13);
        assert_ne!(noise(16)[..8], noise(16)[8..]);
    }
}
