//! Thousands of damaged attributes and items: nothing panics, and the item always comes back.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::tokens;
use crate::declaration::Kind;

/// A small generator with a fixed seed, so that a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (bound.max(1) as u64)).unwrap_or(0)
    }
}

const ARGS: [&str; 6] = [
    r#"name = "orders.placed", version = 1, key = OrderKey"#,
    r#"name = "a", version = 4294967295, key(region, order), crate = ::a::b, bind = other"#,
    r#"crate = "a::b", codec = c::Cbor<u8, Vec<u16>>, name = "b.c", version = 2, key = Map<A, fn(B) -> C>"#,
    r#"name = "a", version = 1, key(0, 1)"#,
    r#"name = "ledger.entries", version = 1, requires(ack_groups, dedup), address = "legacy""#,
    r#"requires(transactions, inbox_marks,), key(region), crate = ::a::b, name = "c", version = 1, bind = other"#,
];

const ITEMS: [&str; 5] = [
    "pub struct S<'a, T: Foo> where T: Clone, { region: String, #[cfg(x)] order: T, rest: &'a u8 }",
    "#[derive(A)] struct S(u8, #[cfg_attr(y, cfg(z))] Vec<u8>);",
    "enum E { #[topic_key(rename = \"a\")] A, B { c: u8 }, C(u8) }",
    "#[topic_key(crate = ::a)] struct S;",
    "fn f<T>(a: T) -> u8 where T: Copy { 1 }",
];

const STRAYS: [&str; 18] = [
    "requires",
    "requires(cursors)",
    ",",
    "=",
    "<",
    ">",
    "'a",
    "::",
    "name",
    "key",
    "crate",
    "\"v1..Ü\"",
    "0x10u8",
    "-",
    "()",
    "{ = }",
    "[,]",
    "r#fn",
];

fn mutated(stream: TokenStream, random: &mut Random) -> TokenStream {
    let mut trees: Vec<TokenTree> = stream.into_iter().collect();
    let at = random.below(trees.len() + 1);
    match random.below(6) {
        0 if at < trees.len() => drop(trees.remove(at)),
        1 if at < trees.len() => trees.insert(at, trees[at].clone()),
        2 if at + 1 < trees.len() => trees.swap(at, at + 1),
        3 => trees.truncate(at),
        4 if at < trees.len() => {
            if let TokenTree::Group(group) = &trees[at] {
                let delimiter = match random.below(4) {
                    0 => Delimiter::None,
                    1 => Delimiter::Brace,
                    _ => group.delimiter(),
                };
                trees[at] = Group::new(delimiter, mutated(group.stream(), random)).into();
            }
        }
        _ => {
            let stray = tokens(STRAYS[random.below(STRAYS.len())]);
            trees.splice(at..at, stray);
        }
    }
    trees.into_iter().collect()
}

/// Whether the item stands unchanged at the start of what was emitted.
fn starts_with_item(expanded: &TokenStream, item: &TokenStream) -> bool {
    expanded.to_string().starts_with(&item.to_string())
}

/// Expands both attributes.
fn keeps_the_item(args: &TokenStream, item: &TokenStream) {
    for kind in [&Kind::TOPIC, &Kind::STREAM] {
        let expanded = crate::declaration::expand(kind, args.clone(), item.clone());
        assert!(starts_with_item(&expanded, item), "#[{}({args})] {item}\n{expanded}", kind.attribute);
    }
}

#[test]
fn damaged_attributes_never_panic_and_keep_the_item() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for round in 0..4_000 {
        let item = tokens(ITEMS[round % ITEMS.len()]);
        let mut args = tokens(ARGS[random.below(ARGS.len())]);
        for _ in 0..=random.below(4) {
            args = mutated(args, &mut random);
        }
        keeps_the_item(&args, &item);
    }
}

#[test]
fn damaged_items_never_panic_and_are_kept() {
    let mut random = Random(0xD1B5_4A32_D192_ED03);
    for round in 0..4_000 {
        let args = tokens(ARGS[round % ARGS.len()]);
        let mut item = tokens(ITEMS[random.below(ITEMS.len())]);
        for _ in 0..=random.below(4) {
            item = mutated(item, &mut random);
        }
        keeps_the_item(&args, &item);
        let _ = crate::topic_key::expand(item);
    }
}
