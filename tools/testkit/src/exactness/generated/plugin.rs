//! A generated plugin and its edits: everything about them follows from the seed and their numbers.

use std::fmt::Write as _;

use super::{
    reads::{READS, Read, Store},
    sql::with_statements,
    writes::{Path, Write, writes},
};
use crate::{
    exactness::script::{End, Via},
    faults::random::Random,
};

/// A plugin with what it reads.
pub(super) struct GeneratedPlugin {
    pub(super) seed: u64,
    pub(super) number: usize,
    /// The beginning of all its names.
    pub(super) prefix: String,
    pub(super) readers: Vec<Reader>,
    /// Whether it is loaded before the other plugins.
    pub(super) is_early: bool,
    /// Whether the site has a persistent object cache.
    pub(super) has_object_cache: bool,
}

/// A function that reads something, and where it is shown.
pub(super) struct Reader {
    /// `r0`, `r1` and so on.
    pub(super) id: String,
    pub(super) read: &'static Read,
    pub(super) place: &'static str,
}

/// An edit.
pub(super) struct Edit {
    pub(super) number: usize,
    pub(super) write: &'static Write,
    pub(super) via: Via,
    pub(super) end: End,
    /// Whether it runs while a page is being generated that shows what it changes.
    pub(super) overlaps: bool,
    /// Index of a reader of what it writes.
    pub(super) reader: usize,
    /// Number of the object.
    pub(super) n: usize,
    pub(super) php: String,
}

impl GeneratedPlugin {
    pub(super) fn new(seed: u64, number: usize) -> Self {
        let mut random = random(seed, number);
        let count = 4 + random.below(3);
        let mut readers: Vec<Reader> = Vec::with_capacity(count);
        while readers.len() < count {
            let read = pick(READS, &mut random);
            if readers.iter().any(|other| other.read.name == read.name) {
                continue;
            }
            // Widgets are on every page: two would hide what other places show.
            let place = loop {
                let place = *pick(READER_PLACES, &mut random);
                if place != "widget" || readers.iter().all(|other| other.place != place) {
                    break place;
                }
            };
            readers.push(Reader {
                id: format!("r{}", readers.len()),
                read,
                place,
            });
        }
        Self {
            seed,
            number,
            prefix: format!("g{number}"),
            readers,
            is_early: random.once_in(3),
            has_object_cache: random.once_in(3),
        }
    }

    /// The PHP file.
    pub(super) fn php(&self) -> String {
        let mut random = random(self.seed, self.number).fork(1);
        let mut out = SHARED.to_owned();
        out += "\nfunction PRE_readers(): array {\n\treturn array(";
        for reader in &self.readers {
            let _ = write!(out, " '{}' => '{}',", reader.id, reader.place);
        }
        out += " );\n}\n";
        for reader in &self.readers {
            let Read { name, store, php } = reader.read;
            let _ = write!(
                out,
                "\n/** {name} */\nfunction PRE_{}( int $n ) {{\n\tglobal $wpdb;\n\t{}\n\t{}\n}}\n",
                reader.id,
                store.variables(),
                with_statements(php, &mut random)
            );
            if *store == Store::LoadedSetting {
                out += "\n$GLOBALS['PRE_loaded'] = get_option( 'PRE_load', 'none' );\n";
            }
        }
        out.replace("PRE", &self.prefix)
    }

    /// The edit with this number.
    pub(super) fn edit(&self, number: usize) -> Edit {
        let fork = u64::try_from(number).unwrap_or_default() + 100;
        let mut random = random(self.seed, self.number).fork(fork);
        let reader = random.below(self.readers.len());
        let store = self
            .readers
            .get(reader)
            .map_or(Store::Setting, |it| it.read.store);
        let write = pick(writes(store), &mut random);
        let via = *pick(&Via::ALL, &mut random);
        let end = match random.below(12) {
            0 => End::Exit,
            1 => End::Fatal,
            2 if via.is_watched() => End::Killed,
            _ => End::Normal,
        };
        let overlaps = end == End::Normal && random.once_in(6);
        let n = 1 + random.below(3);
        let last = match end {
            End::Normal => "",
            End::Exit => "exit;",
            End::Fatal => "PRE_missing_function();",
            End::Killed => "\\Galley\\Exactness\\Scripts\\kill();",
        };
        // A persistent cache beside changed rows would show the old or the new value by chance.
        let flush = if self.has_object_cache && write.name.ends_with("caches kept") {
            "wp_cache_flush();"
        } else {
            ""
        };
        let (word, m) = (pick(WORDS, &mut random), 100 + random.below(900));
        let php = format!(
            "<?php\n// Seed {}, plugin {}, edit {number}: {}.\n$n = {n};\n$v = '{word}-{number}';\n$m = {m};\n{}\n{}\n{flush}\n{last}\n",
            self.seed,
            self.number,
            write.name,
            store.variables(),
            with_statements(write.php, &mut random)
        );
        Edit {
            number,
            write,
            via,
            end,
            overlaps,
            reader,
            n,
            php: php.replace("PRE", &self.prefix),
        }
    }

    /// Name of the script of an edit. No other script has it, because PHP keeps compiled files.
    pub(super) fn script_name(&self, edit: &Edit) -> String {
        format!("{}-{}-{}", self.seed, self.number, edit.number)
    }

    /// What it reads, and where, in one line.
    pub(super) fn shape(&self) -> String {
        let readers = self.readers.iter();
        let mut words: Vec<String> = readers
            .map(|reader| format!("{} in a {}", reader.read.name, reader.place))
            .collect();
        if self.is_early {
            words.push("loaded early".to_owned());
        }
        if self.has_object_cache {
            words.push("persistent object cache".to_owned());
        }
        words.join("; ")
    }

    /// Address of a page that shows object `n` of this reader.
    pub(super) fn page_of(&self, reader: &Reader, n: usize) -> String {
        let (prefix, id) = (&self.prefix, &reader.id);
        match reader.place {
            "shortcode" | "block" => format!("/{prefix}-{id}-{n}/"),
            "rest" => format!("/wp-json/{prefix}/v1/{id}/{n}"),
            "address" => format!("/{prefix}-{id}-at-{n}/"),
            "sitemap" => {
                let number = id.trim_start_matches('r').parse().unwrap_or(0_u8);
                format!("/wp-sitemap-gen{}-1.xml", char::from(b'a' + number % 26))
            }
            _ => format!("/{prefix}-post-{n}/"),
        }
    }
}

impl Edit {
    /// The circumstances, as in [`super::Kind::when`].
    pub(super) fn when(&self) -> &'static str {
        match self.end {
            End::Normal if self.overlaps => "while a page is generated",
            End::Normal => "plain",
            End::Exit => "exit",
            End::Fatal => "fatal error",
            End::Killed => "killed",
        }
    }

    /// Its write, its interface and its circumstances.
    pub(super) fn shape(&self) -> String {
        let path = match self.write.path {
            Path::Through => "through WordPress",
            Path::Past => "past WordPress",
        };
        format!(
            "{} ({path}, {}, {})",
            self.write.name,
            self.via.name(),
            self.when()
        )
    }
}

fn random(seed: u64, number: usize) -> Random {
    Random::new(seed).fork(u64::try_from(number).unwrap_or_default())
}

fn pick<'a, T>(from: &'a [T], random: &mut Random) -> &'a T {
    &from[random.below(from.len())]
}

/// All circumstances.
#[cfg(test)]
pub(super) const TIMES: &[&str] = &[
    "plain",
    "while a page is generated",
    "exit",
    "fatal error",
    "killed",
];
const READER_PLACES: &[&str] = &[
    "shortcode",
    "block",
    "widget",
    "rest",
    "sitemap",
    "content",
    "address",
    "shortcode",
    "block",
];
const WORDS: &[&str] = &[
    "alder", "birch", "cedar", "dogwood", "elder", "fir", "gorse", "hazel", "ivy", "juniper",
];
const SHARED: &str = include_str!("../../../assets/exactness/generated/plugin.php");

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, process::Command};

    use super::*;
    use crate::Scratch;

    fn files(seed: u64) -> Vec<String> {
        let plugin = GeneratedPlugin::new(seed, 3);
        let edits = (0..20).map(|number| plugin.edit(number).php);
        std::iter::once(plugin.php()).chain(edits).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        assert_eq!(files(7), files(7));
        assert_ne!(files(7), files(8));
    }

    #[test]
    fn each_reader_has_a_page() {
        let plugin = GeneratedPlugin::new(1, 9);
        let setup = SHARED.replace("PRE", &plugin.prefix);
        for reader in &plugin.readers {
            let page = plugin.page_of(reader, 2);
            let start = match reader.place {
                "sitemap" => "/wp-sitemap-",
                "rest" => "/wp-json/g9/v1/",
                _ => "/g9-",
            };
            assert!(page.starts_with(start) && setup.contains(start), "{page}");
        }
    }

    #[test]
    fn each_read_each_write_and_each_circumstance_occurs() {
        let (mut reads, mut stores, mut when) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for number in 0..400 {
            let plugin = GeneratedPlugin::new(1, number);
            reads.extend(plugin.readers.iter().map(|reader| reader.read.name));
            for edit in (0..15).map(|number| plugin.edit(number)) {
                let store = plugin.readers[edit.reader].read.store;
                stores.insert((store, edit.write.name));
                when.insert(edit.when());
            }
        }
        assert_eq!(reads.len(), READS.len());
        let all: BTreeSet<_> = READS
            .iter()
            .flat_map(|read| {
                writes(read.store)
                    .iter()
                    .map(|write| (read.store, write.name))
            })
            .collect();
        assert_eq!(stores, all);
        assert_eq!(when, TIMES.iter().copied().collect());
    }

    #[test]
    fn php_accepts_the_files_of_many_seeds() {
        let scratch = Scratch::new().unwrap();
        for (number, text) in (0..60).flat_map(files).enumerate() {
            assert!(!text.contains("PRE") && !text.contains("SQL("), "{text}");
            scratch.write(&format!("{number}.php"), text).unwrap();
        }
        let check = "foreach ( glob( '*.php' ) as $file ) { try { token_get_all( file_get_contents( $file ), TOKEN_PARSE ); } catch ( ParseError $error ) { echo \"$file: \", $error->getMessage(), \"\\n\"; } } echo 'checked ', count( glob( '*.php' ) );";
        let output = Command::new("php")
            .args(["-r", check])
            .current_dir(scratch.path())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "checked 1260");
    }
}
