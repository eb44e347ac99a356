//! Tests of the choice of dictionaries, and of the forms of pages that are made with them.

use super::*;
use crate::dictionary_job::DictionaryJob;
use crate::encode;
use crate::taking_part::may_take_part;
use galley_cache::entry::EncodedEntry;
use galley_cache::testing;
use galley_policy::compress::coded_fields;
use galley_policy::encoding::Coding;
use galley_policy::request_info::{RequestInfo, RequestLineInfo, Scheme};
use galley_policy::site::Policy;
use http::header::{self, HeaderMap, HeaderValue};

fn key(scheme: Scheme, path: &str) -> Key {
    let line = RequestLineInfo {
        method: "GET",
        target: path.as_bytes(),
        scheme,
        host: "a.test",
        has_body: false,
        upgrade: false,
        country: None,
    };
    let mut info = RequestInfo::default();
    let none = std::iter::empty::<(&[u8], &[u8])>();
    info.parse(&line, none, &Policy::wordpress()).unwrap();
    let mut key = Vec::new();
    galley_policy::key::write_key(&info, &mut key);
    key.extend_from_slice(&[0; 4]);
    Key::new(&key)
}

/// Text that looks random, so that only another page with the same text makes it small.
fn text(seed: u32, words: u32) -> String {
    let word = |n: u32| (seed * 31 + n).wrapping_mul(2_654_435_761) >> 8;
    (0..words).fold(String::new(), |text, n| {
        text + "<b>" + &word(n).to_string() + "</b>"
    })
}

fn body(path: &str) -> String {
    let own = path.bytes().map(u32::from).sum();
    format!("<html>{}{}</html>", text(1, 3000), text(own, 20))
}

fn page_of(scheme: Scheme, path: &str, body: &str) -> Entry {
    let mut fields = HeaderMap::new();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
    fields.insert(header::ETAG, HeaderValue::from_static("\"x\""));
    let page = Entry::new(EntryParts {
        key: key(scheme, path),
        fields: fields.clone(),
        body: body.as_bytes().to_vec().into_stored(),
        ..testing::parts(path, 0)
    });
    let gzip = encode::whole(body.as_bytes(), Coding::Gzip, 5, &|| {}).unwrap();
    let coded = coded_fields(&fields, Coding::Gzip);
    let gzip = EncodedEntry::new(Coding::Gzip, &coded, gzip.into_stored());
    page.with_coded(&fields, vec![gzip], CompressionStep::Quick)
}

trait IntoStored {
    fn into_stored(self) -> galley_cache::body::StoredBody;
}

impl IntoStored for Vec<u8> {
    fn into_stored(self) -> galley_cache::body::StoredBody {
        bytes::Bytes::from(self).into()
    }
}

/// Dictionaries with the pages of a cache.
struct World {
    memory: Arc<Memory>,
    dictionaries: Arc<Dictionaries>,
}

impl World {
    fn new(dictionaries: Dictionaries) -> Self {
        Self {
            memory: Arc::new(Memory::new(64 << 20, 4 << 20)),
            dictionaries: Arc::new(dictionaries),
        }
    }

    fn store(&self, path: &str, hits: usize) {
        let page = page_of(Scheme::Https, path, &body(path)).packed();
        self.memory.put(Arc::new(page)).unwrap();
        for _ in 0..hits {
            self.memory.get(key(Scheme::Https, path).bytes()).unwrap();
        }
    }

    fn page(&self, path: &str) -> Arc<Entry> {
        self.memory.peek(key(Scheme::Https, path).bytes()).unwrap()
    }

    fn compare(&self, path: &str, now: Tick) -> Option<(u64, u64)> {
        self.job(&self.page(path), now, true).work()
    }

    fn job(&self, page: &Arc<Entry>, now: Tick, is_for_everyone: bool) -> DictionaryJob {
        DictionaryJob {
            memory: Arc::clone(&self.memory),
            entry: Arc::downgrade(page),
            dictionaries: Arc::clone(&self.dictionaries),
            is_for_everyone,
            now,
        }
    }

    fn renew(&self, now: Tick) {
        self.dictionaries.renew(&self.memory, now, &|_| true);
    }

    fn of(&self, path: &str) -> Option<Arc<Dictionary>> {
        let page = testing::scopes("a.test", path, &[]);
        self.dictionaries
            .of(page.host, &PageTemplate::of(path.as_bytes()))
    }
}

const START: Tick = Tick(1_000);

fn chosen_at() -> Tick {
    START.plus(CHOICE)
}

/// Two products, of which the first is the dictionary.
fn two_products() -> World {
    let world = World::new(Dictionaries::new(true, None));
    world.store("/product/a/", 9);
    world.store("/product/b/", 3);
    world.compare("/product/a/", START);
    world.compare("/product/b/", START);
    world.renew(chosen_at());
    world
}

#[test]
fn the_page_with_the_most_hits_becomes_the_dictionary_of_its_template() {
    let world = World::new(Dictionaries::new(true, None));
    for (path, hits) in [
        ("/product/a/", 3),
        ("/product/b/", 9),
        ("/c/", 20),
        ("/", 90),
    ] {
        world.store(path, hits);
        assert_eq!(world.compare(path, START), None);
    }
    let before = world.dictionaries.state();
    world.renew(Tick(chosen_at().0 - 1));
    assert_eq!(world.dictionaries.state(), before, "pages gather hits");
    world.renew(chosen_at());
    assert_ne!(world.dictionaries.state(), before);
    let chosen = world.of("/product/z/").unwrap();
    assert_eq!(chosen.bytes(), body("/product/b/").as_bytes());
    let hash: DictionaryHash = Sha256::digest(chosen.bytes()).into();
    assert_eq!(chosen.hash, hash);
    assert!(world.dictionaries.find(&hash).is_some());
    assert!(world.dictionaries.find(&[0; 32]).is_none());
    // One page beside the front page would be loaded for nothing.
    assert!(world.of("/c/").is_none());
    world.store("/d/", 1);
    world.compare("/d/", chosen_at());
    world.renew(chosen_at().plus(CHOICE));
    assert_eq!(world.of("/e/").unwrap().bytes(), body("/c/").as_bytes());
}

#[test]
fn a_page_whose_copy_replaces_it_before_it_is_compared_is_compared_again() {
    let world = World::new(Dictionaries::new(true, None));
    let state = world.dictionaries.state();
    for path in ["/product/a/", "/product/b/"] {
        world.store(path, 3);
        let page = world.page(path);
        assert!(page.claim_dictionaries(state));
        let lost = world.job(&page, START, true);
        let (fields, coded) = (page.fields.clone(), page.coded().to_vec());
        let denser = Arc::new(page.with_coded(&fields, coded, CompressionStep::Dense));
        world.memory.put_if_same(&page, denser).unwrap();
        drop(page);
        assert_eq!(lost.work(), None, "the page is gone");
        let copy = world.page(path);
        assert!(copy.claim_dictionaries(state), "nobody has compared it");
        world.job(&copy, START, true).work();
        assert!(
            !world.page(path).claim_dictionaries(state),
            "it is compared"
        );
    }
    world.renew(chosen_at());
    let (page, state) = (world.page("/product/b/"), world.dictionaries.state());
    assert!(page.claim_dictionaries(state));
    world.job(&page, START, true).work();
    let named = world.page("/product/b/");
    assert!(!Arc::ptr_eq(&named, &page), "it names the dictionary");
    assert!(
        !named.claim_dictionaries(state),
        "and is not compared without end"
    );
}

#[test]
fn a_dictionary_ends_with_its_page_and_after_a_day() {
    let world = two_products();
    let first = world.of("/product/a/").unwrap();
    let state = world.dictionaries.state();
    world.renew(chosen_at().plus(CHOICE));
    assert_eq!(world.dictionaries.state(), state, "frozen");
    let page = key(Scheme::Https, "/product/a/");
    let is_valid = |entry: &Entry| entry.key != page;
    let later = chosen_at().plus(CHOICE);
    world.dictionaries.renew(&world.memory, later, &is_valid);
    assert!(world.dictionaries.find(&first.hash).is_none());
    assert_ne!(world.dictionaries.state(), state);
    assert!(world.of("/product/a/").is_none(), "one valid page is left");

    let world = two_products();
    let end = chosen_at().plus(dictionary::LIFETIME);
    assert!(first.is_fresh(Tick(end.0 - 1)) && !first.is_fresh(end));
    for _ in 0..10 {
        world.memory.get(key(Scheme::Https, "/product/b/").bytes());
    }
    world.renew(end);
    let next = world.of("/product/a/").unwrap();
    assert_eq!(next.bytes(), body("/product/b/").as_bytes(), "chosen again");
}

#[test]
fn a_page_is_stored_as_the_difference_and_names_the_dictionary() {
    let world = two_products();
    let before = world.page("/product/b/");
    let dictionary = world.of("/product/b/").unwrap();
    assert!(world.compare("/product/b/", chosen_at()).is_some());
    let page = world.page("/product/b/");
    let form = form_of(&page).unwrap();
    let sent = form.body.bytes();
    assert_eq!(dictionary::hash_of_body(sent), Some(&dictionary.hash[..]));
    let mut decoder = zstd::bulk::Decompressor::with_dictionary(dictionary.bytes()).unwrap();
    let plain = decoder.decompress(&sent[40..], 1 << 20).unwrap();
    assert_eq!(plain, body("/product/b/").as_bytes());
    assert!(
        form.weight() <= before.weight() / 10 && page.weight() < before.weight() / 8 * 9,
        "a tenth, and the link"
    );
    let link = format!(
        "<{}>; rel=\"compression-dictionary\"",
        dictionary::path(&dictionary.hash)
    );
    assert_eq!(page.fields[header::LINK], link);
    assert!(!page.fields.contains_key(header::CONTENT_ENCODING));
    assert_eq!(page.fields[header::ETAG], "\"x\"");
    for form in page.coded() {
        assert_eq!(form.fields()[header::LINK], link);
    }
    assert_eq!(form.fields()[header::CONTENT_ENCODING], "dcz");
    assert_eq!(world.compare("/product/b/", chosen_at()), None, "done");
    assert!(Arc::ptr_eq(&page, &world.page("/product/b/")));
    // The memory is released with the page and the dictionary.
    world
        .dictionaries
        .renew(&world.memory, chosen_at(), &|_| false);
    for path in ["/product/a/", "/product/b/"] {
        world.memory.remove(key(Scheme::Https, path).bytes());
    }
    assert!(world.memory.budget().used() > 0);
    drop((page, before, dictionary));
    assert_eq!(world.memory.budget().used(), 0);
}

#[test]
fn pages_follow_the_dictionaries_of_their_site() {
    let world = two_products();
    world.compare("/product/b/", chosen_at());
    let has_form = |page: &Entry| form_of(page).is_some();
    assert!(has_form(&world.page("/product/b/")));
    // No dictionary, after a purge or because they are off.
    let off = World {
        memory: Arc::clone(&world.memory),
        dictionaries: Arc::new(Dictionaries::new(false, None)),
    };
    assert_eq!(off.dictionaries.state(), 0);
    off.compare("/product/b/", chosen_at());
    let page = world.page("/product/b/");
    assert!(!has_form(&page) && !page.fields.contains_key(header::LINK));
    // Another dictionary replaces the form.
    world.compare("/product/b/", chosen_at());
    let first = world.of("/product/b/").unwrap();
    world.store("/product/c/", 30);
    world.compare("/product/c/", chosen_at());
    let end = chosen_at().plus(dictionary::LIFETIME);
    world.renew(end);
    let second = world.of("/product/b/").unwrap();
    assert_ne!(first.hash, second.hash);
    world.compare("/product/b/", end);
    let page = world.page("/product/b/");
    let forms = page
        .coded()
        .iter()
        .filter(|form| form.coding == Coding::Dcz);
    let hashes: Vec<_> = forms
        .map(|form| {
            dictionary::hash_of_body(form.body.bytes())
                .unwrap()
                .to_vec()
        })
        .collect();
    assert_eq!(hashes, [second.hash.to_vec()]);
    // The page is not for everyone any more.
    world.job(&page, end, false).work();
    assert!(!has_form(&world.page("/product/b/")));
}

#[test]
fn a_form_that_saves_less_than_half_is_not_stored() {
    let world = two_products();
    // Room that nothing else needs.
    for page in 0..20 {
        let path = format!("/product/{page}/");
        world.store(&path, 1);
        world.compare(&path, chosen_at());
        assert!(form_of(&world.page(&path)).is_some(), "{path}");
    }
    for (path, common, own, is_stored) in [
        // Another text: the difference is as large as the page.
        ("/product/other/", 0, 3000, false),
        ("/product/most/", 400, 1800, false),
        ("/product/half/", 3000, 1000, true),
    ] {
        let text = format!("{}{}", text(1, common), text(777, own));
        let page = page_of(Scheme::Https, path, &text).packed();
        world.memory.put(Arc::new(page)).unwrap();
        let (_, made) = world.compare(path, chosen_at()).unwrap();
        assert!(made > 1_500, "{path}: {made}");
        let page = world.page(path);
        assert_eq!(form_of(&page).is_some(), is_stored, "{path}: {made}");
        assert!(
            page.fields.contains_key(header::LINK),
            "other pages may use it"
        );
    }
}

#[test]
fn the_forms_of_a_site_use_a_tenth_of_the_memory_of_its_pages() {
    let world = two_products();
    let mut paths = Vec::new();
    let mut stored = [0, 0];
    for number in 0..60_u32 {
        let path = format!("/product/{number}/");
        // Up to several times a tenth; every sixth one needs little.
        let own = if number % 6 == 0 {
            20
        } else {
            200 + number * 97 % 700
        };
        let text = format!("{}{}", text(1, 3000), text(number + 1000, own));
        let page = page_of(Scheme::Https, &path, &text).packed();
        world.memory.put(Arc::new(page)).unwrap();
        world.compare(&path, chosen_at());
        let page = world.page(&path);
        let form = form_of(&page);
        assert!(form.is_some() || own > 20, "{path}: within its own tenth");
        if own > 350 {
            stored[usize::from(form.is_some())] += 1;
        }
        paths.push(path.clone());
        let pages: Vec<_> = paths.iter().map(|path| world.page(path)).collect();
        let forms: u64 = pages
            .iter()
            .filter_map(|page| form_of(page))
            .map(EncodedEntry::weight)
            .sum();
        let all: u64 = pages.iter().map(|page| page.weight()).sum();
        assert!(forms <= (all - forms) / 10, "{path}: {forms} of {all}");
    }
    assert!(stored[0] > 0 && stored[1] > 5, "{stored:?}");
    // Pages take their room with them.
    let large = |path: &str| {
        let text = format!("{}{}", text(1, 3000), text(999, 1200));
        let page = page_of(Scheme::Https, path, &text).packed();
        world.memory.put(Arc::new(page)).unwrap();
        world.compare(path, chosen_at());
        form_of(&world.page(path)).is_some()
    };
    for path in &paths {
        world.memory.remove(key(Scheme::Https, path).bytes());
    }
    assert!(!large("/product/large/"), "one page alone");
    for number in 0..12 {
        let path = format!("/product/{number}/");
        world.store(&path, 1);
        world.compare(&path, chosen_at());
    }
    let before = world.dictionaries.state();
    world.renew(chosen_at().plus(CHOICE));
    let state = world.dictionaries.state();
    assert_ne!(state, before, "there is room for a form that was refused");
    assert!(large("/product/large/"), "beside pages that need little");
    world.renew(chosen_at().plus(NEXT_CHOICE));
    assert_eq!(world.dictionaries.state(), state, "none is refused");
}

/// The form of a page that refers to a dictionary.
fn form_of(page: &Entry) -> Option<&EncodedEntry> {
    page.coded().iter().find(|form| form.coding == Coding::Dcz)
}

#[test]
fn pages_without_tls_or_of_another_kind_take_no_part() {
    let page = |scheme| page_of(scheme, "/a/", &body("/a/"));
    assert!(may_take_part(&page(Scheme::Https)));
    assert!(!may_take_part(&page(Scheme::Http)));
    let mut json = page(Scheme::Https).fields.clone();
    json.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    let coded = page(Scheme::Https).coded().to_vec();
    let json = page(Scheme::Https).with_coded(&json, coded, CompressionStep::Quick);
    assert!(!may_take_part(&json));
    let plain =
        page(Scheme::Https).with_coded(&HeaderMap::new(), Vec::new(), CompressionStep::Tried);
    assert!(!may_take_part(&plain));
    let missing = Entry::new(EntryParts {
        status: StatusCode::NOT_FOUND,
        key: key(Scheme::Https, "/a/"),
        ..testing::parts("/a/", 0)
    });
    assert!(!may_take_part(&missing));
}

#[test]
fn templates_and_their_pages_are_bounded() {
    let world = two_products();
    for folder in 0..40 {
        for path in [format!("/f{folder}/a/"), format!("/f{folder}/b/")] {
            world.store(&path, 1);
            world.compare(&path, chosen_at());
        }
    }
    assert_eq!(world.dictionaries.templates.lock().len(), MAX_TEMPLATES);
    assert!(world.of("/product/a/").is_some(), "it is used, so it stays");
    world.renew(chosen_at().plus(CHOICE));
    assert!(world.dictionaries.current.load().len() <= MAX_TEMPLATES);
    for page in 0..40 {
        let path = format!("/product/{page}/");
        world.store(&path, 100 + page);
        world.compare(&path, chosen_at());
    }
    let templates = world.dictionaries.templates.lock();
    assert!(templates.iter().all(|known| known.pages.len() <= MAX_PAGES));
    let product = templates
        .iter()
        .find(|known| known.template == PageTemplate::of(b"/product/a/"));
    let last = key(Scheme::Https, "/product/39/");
    assert!(
        product.unwrap().pages.contains(&last),
        "it has the most hits"
    );
}

#[test]
fn what_a_client_might_not_decode_is_not_made() {
    let page = body("/a/");
    let hash = [7; 32];
    let made = |dictionary: &[u8]| encode::by_dictionary(page.as_bytes(), dictionary, &hash);
    assert!(made(page.as_bytes()).unwrap().len() < 200);
    let trained = [&[0x37, 0xa4, 0x30, 0xec][..], page.as_bytes()].concat();
    assert!(
        made(&trained).is_none(),
        "read as another kind of dictionary"
    );
    assert!(
        made(&vec![b'a'; 8 << 20]).is_none(),
        "the window is too large"
    );
}
