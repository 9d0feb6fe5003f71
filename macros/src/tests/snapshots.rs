//! The generated code, formatted and compared with the files in `snapshots/`.
//!
//! `TIDINGS_BLESS=1 cargo test -p tidings-macros` writes them anew.

use std::path::Path;

use super::{stream_spec, topic, topic_key};

fn assert_snapshot(name: &str, expanded: &str) {
    let file = syn::parse_str(expanded).unwrap_or_else(|error| panic!("{error} in {expanded}"));
    let formatted = prettyplease::unparse(&file);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/tests/snapshots/{name}.rs"));
    if std::env::var_os("TIDINGS_BLESS").is_some() {
        std::fs::write(&path, formatted).unwrap_or_else(|error| panic!("{error}: {}", path.display()));
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}: {}", path.display()));
    assert!(
        formatted == expected,
        "{name} differs from its snapshot; if that is right, run with TIDINGS_BLESS=1\n{formatted}"
    );
}

#[test]
fn topic_minimal() {
    assert_snapshot(
        "topic_minimal",
        &topic(
            r#"name = "orders.placed", version = 1, key = OrderKey"#,
            "#[derive(Serialize)] pub struct OrderPlaced { order: u64 }",
        ),
    );
}

#[test]
fn topic_with_every_word() {
    assert_snapshot(
        "topic_with_every_word",
        &topic(
            r#"version = 0x10, name = "a", key = keys::Pair<u8, u16>, codec = codecs::Cbor, crate = ::bus::tidings, bind = bound"#,
            "#[cfg(feature = \"a\")] pub(crate) enum Event { A { x: u8 }, B }",
        ),
    );
}

#[test]
fn topic_generic() {
    assert_snapshot(
        "topic_generic",
        &topic(
            r#"name = "orders.placed", version = 1"#,
            "struct P<'a, T: Foo = u8, const N: usize = 3>(&'a [T; N]) where T: Clone,;",
        ),
    );
}

#[test]
fn topic_key_fields_with_cfg() {
    assert_snapshot(
        "topic_key_fields_with_cfg",
        &topic(
            r#"name = "orders.placed", version = 1, key(region, r#type), crate = "facade::tidings""#,
            "#[cfg_attr(a, cfg(b), derive(Debug))]
            pub(super) struct OrderPlaced {
                #[cfg(feature = \"a\")] region: String,
                #[cfg(not(feature = \"a\"))] #[serde(skip)] region: u8,
                /// Not copied.
                r#type: u64,
                rest: f64,
            }",
        ),
    );
}

#[test]
fn topic_key_fields_generic() {
    assert_snapshot(
        "topic_key_fields_generic",
        &topic(
            r#"name = "orders.placed", version = 1, key(2, 0)"#,
            "pub struct P<'a, T: Foo<U> + Bar, U, const N: usize>(pub Vec<T>, &'a U, pub Id<N>)
            where T: Clone, U: Copy, Vec<T>: Into<U>;",
        ),
    );
}

#[test]
fn topic_fallback() {
    assert_snapshot(
        "topic_fallback",
        &topic(
            r#"nmae = "Orders_Placed", version = 0, key(regoin, order, order), codec"#,
            "#[topic] struct OrderPlaced { region: String, order: u64 }",
        ),
    );
}

#[test]
fn stream_minimal() {
    assert_snapshot(
        "stream_minimal",
        &stream_spec(
            r#"name = "ledger.entries", version = 1, key = AccountId"#,
            "#[derive(Serialize)] pub struct LedgerEntry { cents: i64 }",
        ),
    );
}

#[test]
fn stream_with_every_word() {
    assert_snapshot(
        "stream_with_every_word",
        &stream_spec(
            r#"version = 2, name = "a", key = keys::Pair<u8, u16>, requires(ack_groups, commit_groups, cursors, dedup,
            inbox_marks, tombstones, transactions,), address = "legacy-a", codec = codecs::Cbor, crate = ::bus::tidings, bind = bound"#,
            "#[cfg(feature = \"a\")] pub(crate) enum Entry { A { x: u8 }, B }",
        ),
    );
}

#[test]
fn stream_key_fields_generic() {
    assert_snapshot(
        "stream_key_fields_generic",
        &stream_spec(
            r#"name = "ledger.entries", version = 1, key(0), requires(ack_groups)"#,
            "pub struct P<'a, T: Foo = u8, const N: usize = 3>(pub Vec<T>, &'a [u8; N]) where T: Clone,;",
        ),
    );
}

#[test]
fn stream_fallback() {
    assert_snapshot(
        "stream_fallback",
        &stream_spec(
            r#"name = "ledger", version = 0, requires(ack_group, dedup, dedup, cursors), address = "a b""#,
            "#[stream_spec] #[topic] struct LedgerEntry;",
        ),
    );
}

#[test]
fn key_named() {
    assert_snapshot("key_named", &topic_key("pub struct OrderKey { region: Region, r#type: u64 }"));
}

#[test]
fn key_tuple() {
    assert_snapshot("key_tuple", &topic_key("struct Pair(u8, String);"));
}

#[test]
fn key_newtype() {
    assert_snapshot(
        "key_newtype",
        &topic_key("#[topic_key(crate = ::bus)] struct Wrapper<T: Foo>(T::Bar) where T: Baz,;"),
    );
}

#[test]
fn key_unit() {
    assert_snapshot("key_unit", &topic_key("struct All;"));
}

#[test]
fn key_enum() {
    assert_snapshot("key_enum", &topic_key("enum Region { #[topic_key(rename = \"eu-1\")] Europe, America, r#Self_ }"));
}

#[test]
fn key_fallback() {
    assert_snapshot("key_fallback", &topic_key("struct Borrowed<'a> { text: &'a str }"));
}
