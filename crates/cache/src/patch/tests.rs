//! Purges, renderings, patches and generated pages in generated interleavings: no request gets a part of a page that is older
//! than a purge that was acknowledged before it. And patched pages have the bytes of generated ones.
//!
//! All pages show the same widgets, in several contexts. One response may print a widget for several contexts, and then prints
//! it from what it remembers, as WordPress does with the widgets of shops. It then describes the widget completely, as Galley's
//! plugin does, or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use galley_policy::fragments::FragmentPart;
use galley_policy::purge::{Purge, Scope, Strength};
use galley_policy::tags;
use proptest::prelude::*;

use super::*;
use crate::entry::{Entry, EntryParts};
use crate::fragments::digest;
use crate::key::Key;
use crate::memory::Memory;
use crate::purge_table::Validity;
use crate::testing;

/// The things that pages show, each with a tag. Number [`OWN`] is part of each page itself.
const ITEMS: usize = 4;
const OWN: usize = 3;

/// The items of each widget.
const WIDGETS: [&[usize]; 2] = [&[0, 1], &[1, 2]];

/// The context in which each page shows its widgets.
const CONTEXTS: [&str; 4] = ["", "", "a", "b"];

/// The time of all entries.
const NOW: Tick = Tick(0);

/// How a response describes a widget that it prints from what it remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remembered {
    /// With all tags of the widget.
    Described,
    /// Without tags.
    NotDescribed,
}

#[derive(Clone, Debug)]
enum Step {
    /// Changes an item.
    Edit(usize),
    /// Purges an item, and acknowledges the purge.
    Purge(usize, Strength),
    /// Sends a request for a page.
    Generate(usize),
    /// Sends a request for widgets, each with its context.
    Render(Vec<(usize, &'static str)>),
    /// Prints the next part of a response in progress.
    Print(usize),
    /// Receives the end of a response in progress.
    Receive(usize),
    /// Patches a page if its renderings are there, but does not store it yet.
    BeginPatch(usize),
    /// Stores a patched page.
    EndPatch(usize),
    /// Requests a page, and waits for the response.
    Visit(usize),
}

/// What a response shows.
#[derive(Clone, Copy, Debug)]
enum Part {
    Own,
    Widget(usize, &'static str),
}

/// A part that PHP has printed.
struct PrintedPart {
    part: Part,
    html: String,
    tags: String,
}

/// A response in progress.
struct Response {
    /// The page; `None`: the response consists of widgets.
    page: Option<usize>,
    born: u64,
    parts: Vec<Part>,
    printed: Vec<PrintedPart>,
    /// The widgets that PHP has printed for this response.
    remembered: BTreeMap<usize, Vec<u32>>,
}

struct World {
    memory: Memory,
    purges: PurgeTable,
    fragments: FragmentTable,
    remembered: Remembered,
    items: [u32; ITEMS],
    /// The value of each item in each page that a request must get at least, by the part of the page.
    owed: BTreeMap<(usize, usize, usize), u32>,
    responses: Vec<Response>,
    patches: Vec<(Arc<Entry>, Arc<Entry>)>,
    patched: usize,
}

impl World {
    fn new(remembered: Remembered) -> Self {
        Self {
            memory: Memory::new(1 << 24, 1 << 20),
            purges: PurgeTable::new(),
            fragments: FragmentTable::default(),
            remembered,
            items: [0; ITEMS],
            owed: BTreeMap::new(),
            responses: Vec::new(),
            patches: Vec::new(),
            patched: 0,
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Edit(item) => self.items[*item] += 1,
            Step::Purge(item, strength) => self.purge(*item, *strength),
            Step::Generate(page) => self.responses.push(self.generate(*page)),
            Step::Render(widgets) => self.responses.push(self.render(widgets)),
            Step::Print(number) => {
                if let Some(index) = index(*number, self.responses.len()) {
                    print(&self.items, self.remembered, &mut self.responses[index]);
                }
            }
            Step::Receive(number) => {
                if let Some(index) = index(*number, self.responses.len()) {
                    let response = self.responses.swap_remove(index);
                    self.receive(response);
                }
            }
            Step::BeginPatch(page) => {
                let held = self.memory.peek(&key(*page));
                let patch = held.and_then(|held| Some((Arc::clone(&held), self.patch(&held)?)));
                self.patches.extend(patch);
            }
            Step::EndPatch(number) => {
                if let Some(index) = index(*number, self.patches.len()) {
                    let (held, entry) = self.patches.swap_remove(index);
                    let _ = self.memory.put_if_same(&held, entry);
                }
            }
            Step::Visit(page) => self.visit(*page),
        }
    }

    fn purge(&mut self, item: usize, strength: Strength) {
        for page in 0..CONTEXTS.len() {
            let held = self.memory.peek(&key(page));
            for part in 0..=WIDGETS.len() {
                let is_described = match (self.remembered, &held, part.checked_sub(1)) {
                    (Remembered::Described, ..) => true,
                    (Remembered::NotDescribed, None, _) => false,
                    (_, Some(held), None) => held.scopes.tags.contains(&tag_id(item)),
                    (_, Some(held), Some(part)) => {
                        let mut tags = held.fragments()[part].tags();
                        tags.any(|tag| tag == tag_id(item))
                    }
                };
                if is_described {
                    self.owed.insert((page, part, item), self.items[item]);
                }
            }
        }
        let scope = Scope::Tag(tag(item));
        self.purges.publish(&Purge { scope, strength });
    }

    fn response(&self, page: Option<usize>, parts: Vec<Part>) -> Response {
        Response {
            page,
            born: self.purges.current(),
            parts,
            printed: Vec::new(),
            remembered: BTreeMap::new(),
        }
    }

    fn generate(&self, page: usize) -> Response {
        let widgets = (0..WIDGETS.len()).map(|widget| Part::Widget(widget, CONTEXTS[page]));
        let parts = std::iter::once(Part::Own).chain(widgets).collect();
        self.response(Some(page), parts)
    }

    fn render(&self, widgets: &[(usize, &'static str)]) -> Response {
        let parts = widgets.iter();
        let parts = parts.map(|&(widget, context)| Part::Widget(widget, context));
        self.response(None, parts.collect())
    }

    /// Receives the rest of a response.
    fn receive(&self, mut response: Response) {
        while print(&self.items, self.remembered, &mut response) {}
        match response.page {
            Some(page) => {
                if let Some(entry) = self.received(page, &response) {
                    let _ = self.memory.put(entry);
                }
            }
            None => self.note_rendered(&response),
        }
    }

    /// The entry of a generated page, unless it is purged already.
    fn received(&self, page: usize, response: &Response) -> Option<Arc<Entry>> {
        let variant = variant_id(&key(page)).unwrap();
        let (mut body, mut fragments) = (String::new(), Vec::new());
        let mut own = tags::Tags::default();
        for printed in &response.printed {
            let start = u32::try_from(body.len()).unwrap();
            body.push_str(&printed.html);
            let Part::Widget(widget, context) = printed.part else {
                own.add(&tags::from_list(&printed.tags).unwrap());
                continue;
            };
            let part = fragment_part(widget, context, &printed.tags);
            let digest = digest(printed.html.as_bytes(), "-");
            fragments.push(PageFragment {
                range: start..u32::try_from(body.len()).unwrap(),
                version: self.fragments.version(variant, &part, digest)?,
                generated_tags: Arc::default(),
                born: response.born,
                except: Arc::default(),
            });
        }
        let mut parts = EntryParts {
            key: Key::new(&key(page)),
            body: bytes::Bytes::from(body).into(),
            ..testing::parts("/", response.born)
        };
        parts.scopes.tags = own.ids.into();
        let entry = Arc::new(Entry::new(parts).with_fragments(fragments));
        (self.purges.validity_waiting(&entry) != Validity::Purged).then_some(entry)
    }

    fn note_rendered(&self, response: &Response) {
        for printed in &response.printed {
            let Part::Widget(widget, context) = printed.part else {
                continue;
            };
            let mut parts = testing::parts("/", response.born);
            parts.body = bytes::Bytes::from(printed.html.clone()).into();
            parts.scopes.tags = tags::from_list(&printed.tags).unwrap().ids.into();
            let rendered = RenderedFragment {
                digest: digest(printed.html.as_bytes(), "-"),
                blocks: "-".into(),
                entry: Arc::new(Entry::new(parts)),
            };
            let id = fragment_id(variant_id(&key(0)).unwrap(), &definition(widget, context));
            self.fragments.rendered(id, rendered);
        }
    }

    /// The page with new renderings of its purged fragments, if there are such and the result is valid.
    fn patch(&self, held: &Arc<Entry>) -> Option<Arc<Entry>> {
        let rendered = self.fragments.renderings_for(&self.purges, held, NOW)?;
        let patched = self.fragments.patched(held, held.body()?, &rendered, NOW)?;
        let entry = Entry::new(EntryParts {
            key: held.key.clone(),
            body: bytes::Bytes::from(patched.pieces.concat()).into(),
            lifetime: patched.lifetime,
            scopes: held.scopes.clone(),
            ..testing::parts("/", held.born)
        });
        let entry = Arc::new(entry.with_fragments(patched.fragments));
        (self.purges.validity_waiting(&entry) == Validity::Valid).then_some(entry)
    }

    /// A request: gets the stored page if it is valid, or else patched or generated.
    fn visit(&mut self, page: usize) {
        let held = self.memory.peek(&key(page));
        let validity = held.as_ref().map(|held| self.purges.validity_waiting(held));
        let sent = match (held, validity) {
            (Some(held), Some(Validity::Valid)) => Some(held),
            (Some(held), Some(Validity::Outdated)) => self.patched_for_visitor(&held),
            _ => None,
        };
        let sent = sent.unwrap_or_else(|| {
            let mut response = self.generate(page);
            while print(&self.items, self.remembered, &mut response) {}
            let entry = self.received(page, &response).unwrap();
            let _ = self.memory.put(Arc::clone(&entry));
            entry
        });
        self.check(page, &sent);
    }

    fn patched_for_visitor(&mut self, held: &Arc<Entry>) -> Option<Arc<Entry>> {
        let purged = self.purges.purged_fragments(held)?;
        let missing = purged.into_iter().filter_map(|number| {
            let fragment = held.fragments().get(number)?;
            let found = self.fragments.rendering_for(&self.purges, fragment, NOW);
            found
                .is_none()
                .then(|| part_of(&fragment.version.definition))
        });
        let missing: Vec<_> = missing.collect();
        if !missing.is_empty() {
            self.receive(self.render(&missing));
        }
        let entry = self.patch(held)?;
        let _ = self.memory.put_if_same(held, Arc::clone(&entry));
        self.patched += 1;
        Some(entry)
    }

    fn check(&self, page: usize, sent: &Entry) {
        let text = std::str::from_utf8(sent.body().unwrap()).unwrap();
        let parts: Vec<&str> = text.split_terminator('\n').collect();
        assert_eq!(parts.len(), 1 + WIDGETS.len(), "{text}");
        for (number, part) in parts.into_iter().enumerate() {
            let (name, shown) = part.split_once(':').unwrap();
            let expected = match number.checked_sub(1) {
                None => "own".to_owned(),
                Some(widget) => definition(widget, CONTEXTS[page]),
            };
            assert_eq!(name, expected, "{text}");
            for (item, value) in shown
                .split_terminator(',')
                .filter_map(|v| v.split_once('='))
            {
                let (item, value): (usize, u32) = (item.parse().unwrap(), value.parse().unwrap());
                let owed = self.owed.get(&(page, number, item)).copied();
                assert!(
                    value >= owed.unwrap_or_default(),
                    "page {page} is stale: {text} instead of {owed:?}"
                );
            }
        }
    }

    /// Visits all pages after all edits have been purged, and compares the bytes with newly generated ones.
    fn compare_all(&mut self) {
        for item in 0..ITEMS {
            self.purge(item, Strength::Hard);
        }
        for page in 0..CONTEXTS.len() {
            self.visit(page);
            let stored = self.memory.peek(&key(page)).unwrap();
            let mut response = self.generate(page);
            while print(&self.items, self.remembered, &mut response) {}
            let generated = self.received(page, &response).unwrap();
            assert_eq!(stored.body(), generated.body(), "page {page}");
            let range = |fragment: &PageFragment| fragment.range.clone();
            let ranges = |entry: &Entry| entry.fragments().iter().map(range).collect::<Vec<_>>();
            assert_eq!(ranges(&stored), ranges(&generated), "page {page}");
        }
    }
}

/// Prints the next part. Returns false if there is none.
fn print(items: &[u32; ITEMS], remembered: Remembered, response: &mut Response) -> bool {
    let Some(&part) = response.parts.get(response.printed.len()) else {
        return false;
    };
    let (name, shown): (String, &[usize]) = match part {
        Part::Own => ("own".to_owned(), &[OWN]),
        Part::Widget(widget, context) => (definition(widget, context), WIDGETS[widget]),
    };
    let current: Vec<u32> = shown.iter().map(|&item| items[item]).collect();
    let (values, is_remembered) = match part {
        Part::Own => (current, false),
        Part::Widget(widget, _) => {
            let is_remembered = response.remembered.contains_key(&widget);
            let kept = response.remembered.entry(widget).or_insert(current);
            (kept.clone(), is_remembered)
        }
    };
    let values = shown.iter().zip(values);
    let values: Vec<_> = values
        .map(|(item, value)| format!("{item}={value}"))
        .collect();
    let is_described = !is_remembered || remembered == Remembered::Described;
    let tags: Vec<_> = shown.iter().map(|&item| tag(item)).collect();
    response.printed.push(PrintedPart {
        part,
        html: format!("{name}:{},\n", values.join(",")),
        tags: if is_described {
            tags.join(",")
        } else {
            String::new()
        },
    });
    true
}

fn fragment_part(widget: usize, context: &str, tags: &str) -> FragmentPart {
    FragmentPart {
        label: format!("widget/{widget}"),
        start: 0,
        length: 0,
        blocks: "-".to_owned(),
        definition: definition(widget, context),
        tags: tags::from_list(tags).unwrap(),
        has_context: !context.is_empty(),
    }
}

fn definition(widget: usize, context: &str) -> String {
    format!("{widget}@{context}")
}

fn part_of(definition: &str) -> (usize, &'static str) {
    let (widget, context) = definition.split_once('@').unwrap();
    let mut known = CONTEXTS.into_iter();
    (
        widget.parse().unwrap(),
        known.find(|known| *known == context).unwrap(),
    )
}

fn tag(item: usize) -> String {
    format!("i{item}")
}

fn tag_id(item: usize) -> u64 {
    galley_policy::key::tag_id(&tag(item))
}

/// The key of a page: a scheme, an `Accept` class, a device, a host, a path, no query, no cookies.
fn key(page: usize) -> Vec<u8> {
    let mut key = vec![0, 0, 0, 1, b'a', 2, b'/'];
    key.push(b'0' + u8::try_from(page).unwrap());
    key.extend([0, 0]);
    key
}

fn index(number: usize, length: usize) -> Option<usize> {
    number.checked_rem(length)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (item, page) = (0..ITEMS, 0..CONTEXTS.len());
    let strength = prop::sample::select(vec![Strength::Hard, Strength::Soft]);
    let widget = (0..WIDGETS.len(), prop::sample::select(vec!["", "a", "b"]));
    let step = prop_oneof![
        2 => item.clone().prop_map(Step::Edit),
        2 => (item, strength).prop_map(|(item, strength)| Step::Purge(item, strength)),
        1 => page.clone().prop_map(Step::Generate),
        2 => prop::collection::vec(widget, 1..6).prop_map(Step::Render),
        3 => (0..8usize).prop_map(Step::Print),
        2 => (0..8usize).prop_map(Step::Receive),
        1 => page.clone().prop_map(Step::BeginPatch),
        1 => (0..8usize).prop_map(Step::EndPatch),
        4 => page.prop_map(Step::Visit),
    ];
    prop::collection::vec(step, 1..80)
}

/// Pages that everybody requested, with widgets that PHP rendered for all contexts in one request.
fn with_shared_widgets(remembered: Remembered) -> World {
    let mut world = World::new(remembered);
    for page in 0..CONTEXTS.len() {
        world.visit(page);
    }
    let contexts = ["b", "", "a"];
    let all = contexts
        .map(|context| [(0, context), (1, context)])
        .concat();
    world.receive(world.render(&all));
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_request_gets_a_part_that_is_older_than_an_acknowledged_purge(steps in steps()) {
        let mut world = with_shared_widgets(Remembered::Described);
        for step in &steps {
            world.take(step);
        }
        world.compare_all();
    }

    #[test]
    fn purges_reach_patched_pages_by_the_tags_of_generated_ones(steps in steps()) {
        let mut world = with_shared_widgets(Remembered::NotDescribed);
        for step in &steps {
            world.take(step);
        }
        world.compare_all();
    }
}

#[test]
fn pages_in_all_contexts_are_patched() {
    for remembered in [Remembered::Described, Remembered::NotDescribed] {
        let mut world = with_shared_widgets(remembered);
        for round in 1..4 {
            for item in 0..OWN {
                world.take(&Step::Edit(item));
                world.take(&Step::Purge(item, Strength::Hard));
                for page in 0..CONTEXTS.len() {
                    world.visit(page);
                }
            }
            assert_eq!(
                world.patched,
                round * OWN * CONTEXTS.len(),
                "{remembered:?}"
            );
        }
        world.compare_all();
    }
}
