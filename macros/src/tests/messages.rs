//! Which errors bad attributes and items give: how many, their text, and that item and impl stay.

use super::{stream_spec, topic, topic_key};

/// The texts of the errors in expanded code, in their order.
fn messages(expanded: &str) -> Vec<String> {
    let file = syn::parse_file(expanded).unwrap_or_else(|error| panic!("{error} in {expanded}"));
    let calls = file.items.into_iter().filter_map(|item| match item {
        syn::Item::Macro(call) if call.mac.path.segments.last()?.ident == "compile_error" => Some(call.mac),
        _ => None,
    });
    calls.map(|call| call.parse_body::<syn::LitStr>().expect("a literal").value()).collect()
}

const ITEM: &str = "struct OrderPlaced { region: String, order: u64, text: &'static str }";

#[track_caller]
fn topic_gives(args: &str, item: &str, expected: &[&str]) {
    let expanded = topic(args, item);
    let found = messages(&expanded);
    assert_eq!(found, expected, "#[topic({args})] {item}");
    assert!(expanded.contains("TopicSpec for"), "no impl: {expanded}");
}

/// `args` are those behind a good name and version.
#[track_caller]
fn stream_gives(args: &str, item: &str, expected: &[&str]) {
    let expanded = stream_spec(&format!("name = \"a\", version = 1, {args}"), item);
    assert_eq!(messages(&expanded), expected, "#[stream_spec({args})] {item}");
    assert!(expanded.contains("StreamedBy < :: tidings :: Broker < __B >> for"), "no impl: {expanded}");
}

#[track_caller]
fn key_gives(item: &str, expected: &[&str]) {
    let expanded = topic_key(item);
    assert_eq!(messages(&expanded), expected, "{item}");
    assert!(expanded.contains("TopicKey for"), "no impl: {expanded}");
}

const WORDS: &str = "the words are `name`, `version`, `key`, `codec`, `crate` and `bind`";

#[test]
fn missing_words() {
    let remedy = "missing; write `#[topic(name = \"order-placed\", version = 1)]`";
    topic_gives("", ITEM, &[&format!("`name` and `version` are {remedy}")]);
    topic_gives("version = 1", ITEM, &[&format!("`name` is {remedy}")]);
    topic_gives("name = \"a\"", ITEM, &["`version` is missing; write `#[topic(name = \"a\", version = 1)]`"]);
    topic_gives(
        "version = 7",
        "struct r#type;",
        &["`name` is missing; write `#[topic(name = \"type\", version = 7)]`"],
    );
}

#[test]
fn misspelt_words_are_taken_for_what_was_meant() {
    topic_gives(
        "nmae = \"a\", Version = 1",
        ITEM,
        &[
            &format!("unknown word `nmae`; write `name` ({WORDS})"),
            &format!("unknown word `Version`; write `version` ({WORDS})"),
        ],
    );
    topic_gives("name = \"a\", version = 1, group = 3", ITEM, &[&format!("unknown word `group`; {WORDS}")]);
}

#[test]
fn every_mistake_is_reported_at_once() {
    topic_gives(
        "name = \"Orders_Placed\", version = 0, keys(regoin, order, order), codec, grup = 1, name = \"b\", 3",
        ITEM,
        &[
            &format!("unknown word `keys`; write `key` ({WORDS})"),
            "`codec` has no value; write `codec = path::to::Codec`",
            &format!("unknown word `grup`; {WORDS}"),
            "`name` is given twice; keep one",
            &format!("expected a word; {WORDS}"),
            "the name `Orders_Placed` holds `O`, but only `a-z`, `0-9`, `-` and `.` are allowed; write `orders-placed`",
            "the first version is 1; write `version = 1`",
            "the payload has no field `regoin`; write `region`",
            "the field `order` is twice in the key; keep one",
        ],
    );
}

#[test]
fn wrong_forms() {
    let good = "name = \"a\", version = 1";
    let ok = "name = \"a\"";
    for (args, expected) in [
        (
            "name(\"a\"), version = 1".to_owned(),
            vec!["`name` takes a string literal behind `=`; write `name = \"orders.placed\"`"],
        ),
        ("name \"a\", version = 1".to_owned(), vec!["expected `=` after `name`; write `name = \"orders.placed\"`"]),
        ("name: \"a\", version = 1".to_owned(), vec!["expected `=` after `name`; write `name = \"orders.placed\"`"]),
        ("name = , version = 1".to_owned(), vec!["`name` has no value; write `name = \"orders.placed\"`"]),
        ("name = a, version = 1".to_owned(), vec!["`name` takes a string literal; write `name = \"orders.placed\"`"]),
        ("name = \"a\" version = 1".to_owned(), vec!["expected `,` before `version`; put a comma between the words"]),
        (format!("{ok}, version = \"1\""), vec!["`version` takes an integer; write `version = 1`"]),
        (format!("{ok}, version = 1.5"), vec!["`version` takes an integer; write `version = 1`"]),
        (format!("{ok}, version = -1"), vec!["the first version is 1; write `version = 1`"]),
        (format!("{ok}, version = 3u32"), vec!["the version has the suffix `u32`; write `3`"]),
        (format!("{ok}, version = 4294967296"), vec!["the version `4294967296` is over 4294967295; write a lower one"]),
        (format!("{good}, key"), vec!["`key` has no value; write `key = OrderKey` or `key(field, ..)`"]),
        (format!("{good}, key = 5"), vec!["`key` takes a type; write `key = OrderKey` or `key(field, ..)`"]),
        (
            format!("{good}, key = &'static str"),
            vec!["a key is owned, but this type borrows; use an owned one such as `String`"],
        ),
        (format!("{good}, key = A, key = B"), vec!["`key` is given twice; keep one"]),
        (format!("{good}, key = A, key(order)"), vec!["`key = ..` and `key(..)` are both given; keep one"]),
        (
            format!("{good}, key()"),
            vec!["`key()` names no field; name one, or leave the word out for a topic without a key"],
        ),
        (
            format!("{good}, key(self.order)"),
            vec!["expected a field of the payload; write its name, as in `key(region, order)`"],
        ),
        (
            format!("{good}, key(nothing)"),
            vec!["the payload has no field `nothing`; the fields are `region`, `order` and `text`"],
        ),
        (format!("{good}, key(0)"), vec!["the payload has no field `0`; the fields are `region`, `order` and `text`"]),
        (
            format!("{good}, key(text)"),
            vec!["a key is owned, but the field `text` borrows; write `key = Type` with an owned type"],
        ),
        (format!("{good}, codec = \"Json\""), vec!["`codec` takes a type; write `codec = path::to::Codec`"]),
        (
            format!("{good}, crate = 5"),
            vec!["`crate` takes the path of the crate `tidings`; write `crate = ::path::to::tidings`"],
        ),
        (
            format!("{good}, crate = \"a b\""),
            vec!["`crate` takes the path of the crate `tidings`; write `crate = ::path::to::tidings`"],
        ),
        (format!("{good}, bind = \"x\""), vec!["`bind` takes an identifier; write `bind = other_name`"]),
        (format!("{good}, bind = fn"), vec!["`bind` takes an identifier; write `bind = other_name`"]),
        (format!("{good}, bind = a.b"), vec!["unexpected tokens behind the value; remove them"]),
    ] {
        topic_gives(&args, ITEM, &expected);
    }
}

#[test]
fn wrong_words_of_streams() {
    let list = "`requires` takes a list in parentheses; write `requires(ack_groups, ..)`";
    let all = "`ack_groups`, `commit_groups`, `cursors`, `transactions`, `tombstones`, `inbox_marks` and `dedup`";
    let alone = |word: &str| format!("expected the word of a capability; write `requires({word})`");
    let unknown = |word: &str, meant: &str| format!("unknown capability `{word}`; write `{meant}`");
    let long = format!("address = \"{}\"", "ü".repeat(125));
    for (args, expected) in [
        ("requires", vec![list.to_owned()]),
        ("requires = ack_groups", vec![list.to_owned()]),
        ("requires: (ack_groups)", vec![list.to_owned()]),
        ("requires[ack_groups]", vec![list.to_owned()]),
        ("requires()", vec!["`requires()` names no capability; name one, or leave the word out".to_owned()]),
        ("requires(dedup), requires(cursors)", vec!["`requires` is given twice; keep one".to_owned()]),
        (
            "requires(ack_group, AckGroups)",
            vec![unknown("ack_group", "ack_groups"), unknown("AckGroups", "ack_groups")],
        ),
        ("requires(r#dedup)", vec![unknown("r#dedup", "dedup")]),
        ("requires(tail)", vec![format!("unknown capability `tail`; the capabilities are {all}")]),
        ("requires(fn)", vec![format!("unknown capability `fn`; the capabilities are {all}")]),
        ("requires(log)", vec!["every stream requires `Log`; remove the word".to_owned()]),
        ("requires(dedup, cursors, dedup)", vec!["`dedup` is required twice; keep one".to_owned()]),
        ("requires(dedup cursors)", vec!["expected `,` before `cursors`; put a comma between the words".to_owned()]),
        ("requires(\"transaction\", a::Dedup)", vec![alone("transactions"), alone("dedup")]),
        ("requires(cursors = true, 3)", vec![alone("cursors"), alone("ack_groups")]),
        (
            "requires(dedup) address = \"a\"",
            vec!["expected `,` before `address`; put a comma between the words".to_owned()],
        ),
        (
            "key()",
            vec!["`key()` names no field; name one, or leave the word out for a stream without a key".to_owned()],
        ),
        (
            "address = \"\"",
            vec![
                "the address is empty; write the stream's own, such as `legacy-orders`, or leave the word out"
                    .to_owned(),
            ],
        ),
        (
            "address = \"a\\u{85}\"",
            vec!["the address holds `\\u{85}`; write one without white space and control characters".to_owned()],
        ),
        (
            "address = \"a}\"",
            vec!["the address holds `}`, which would move its keys on a cluster; write one without".to_owned()],
        ),
        (&long, vec!["the address has 250 bytes; write one of at most 249".to_owned()]),
        ("address = a", vec!["`address` takes a string literal; write `address = \"legacy-orders\"`".to_owned()]),
    ] {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        stream_gives(args, ITEM, &expected);
    }
    // A topic has no such words.
    topic_gives(
        "name = \"a\", version = 1, requires(dedup), address = \"a\"",
        ITEM,
        &[&format!("unknown word `requires`; {WORDS}"), &format!("unknown word `address`; {WORDS}")],
    );
}

#[test]
fn an_item_has_each_attribute_once() {
    stream_gives("", "#[topic(name = \"a\", version = 1)] struct S;", &[]);
    topic_gives("name = \"a\", version = 1", "#[stream_spec(name = \"a\", version = 1)] struct S;", &[]);
    stream_gives(
        "",
        "#[tidings::stream_spec(name = \"b\", version = 1)] struct S;",
        &["`#[stream_spec]` stands twice on one item; keep one"],
    );
}

#[test]
fn wrong_places() {
    let good = "name = \"a\", version = 1";
    for (item, what) in [
        ("fn f() {}", "a function"),
        ("trait T {}", "a trait"),
        ("impl S {}", "an impl block"),
        ("mod m {}", "a module"),
        ("type A = B;", "a type alias"),
        ("const A: B = C;", "a constant"),
        ("use a::b;", "an import"),
    ] {
        let expanded = topic(good, item);
        let expected = format!("`#[topic]` can't stand on {what}; put it on the struct or enum of the payload");
        assert_eq!(messages(&expanded), [expected], "{item}");
        assert!(expanded.starts_with(&super::tokens(item).to_string()), "{expanded}");
        let expected = format!("`#[stream_spec]` can't stand on {what}; put it on the struct or enum of the payload");
        assert_eq!(messages(&stream_spec(good, item)), [expected], "{item}");
    }
    topic_gives(
        good,
        "union U { a: u8 }",
        &["`#[topic]` can't stand on a union; put it on the struct or enum of the payload"],
    );
    topic_gives(
        good,
        "#[tidings::topic(name = \"b\", version = 1)] struct S;",
        &["`#[topic]` stands twice on one item; keep one"],
    );
    topic_gives(
        &format!("{good}, key(a)"),
        "enum E { A { a: u8 } }",
        &["an enum has no fields to make a key of; write `key = Type` with a type that derives `TopicKey`"],
    );
    topic_gives(
        &format!("{good}, key(a)"),
        "struct S { a: <Self as T>::A }",
        &["the type of the field `a` names `Self`; write the payload's name there"],
    );
    topic_gives(
        &format!("{good}, key(2)"),
        "struct S(u8, u16);",
        &["the payload has no field `2`; the fields are numbered from 0 to 1"],
    );
    topic_gives(
        &format!("{good}, key(1)"),
        "struct S(#[cfg(a)] u8, u16);",
        &["the index `1` depends on a `#[cfg]`; name the fields of the struct"],
    );
    topic_gives(
        &format!("{good}, key(a)"),
        "struct S;",
        &["the payload has no field `a`; the payload has none, so write `key = Type` or no key"],
    );
}

#[test]
fn an_unreadable_item_is_emitted_as_it_is() {
    let item = "struct S { a: u8, b: }";
    let expanded = topic("name = \"a\", version = 1", item);
    assert!(expanded.starts_with(&super::tokens(item).to_string()), "{expanded}");
    assert!(expanded.contains("TopicSpec for S"), "no impl: {expanded}");
    assert!(!expanded.contains("compile_error"), "the compiler reports it itself: {expanded}");
    // Its fields can't be known, so a key of them is refused.
    let expanded = topic("name = \"a\", version = 1, key(a)", item);
    assert_eq!(expanded.matches("compile_error").count(), 1, "{expanded}");
    let expanded = topic("name = \"a\", version = 1", "struct = S;");
    assert_eq!(expanded.matches("compile_error").count(), 1, "{expanded}");
}

#[test]
fn every_form_is_accepted() {
    for item in ["struct S;", "struct S {}", "struct S();", "struct S(u8);", "enum E {}", "enum E { A, B(u8) }"] {
        let expanded = topic("name = \"a\", version = 1,", item);
        assert_eq!(messages(&expanded), [""; 0], "{item}");
    }
    for key in ["()", "A", "::a::B", "Vec<(A, B)>", "Map<A, fn(B) -> C>", "[u8; 4]", "<A as B>::C"] {
        let expanded = topic(&format!("name = \"a\", key = {key}, version = 1"), ITEM);
        assert_eq!(messages(&expanded), [""; 0], "{key}");
    }
    for path in ["::a::b", "a", "crate::b", "\"::a::b\"", "self::a", "super::super::a"] {
        let expanded = topic(&format!("crate = {path}, name = \"a\", version = 1"), ITEM);
        assert_eq!(messages(&expanded), [""; 0], "{path}");
    }
    for address in ["a", "legacy:orders", "ordres/café", &"a".repeat(249)] {
        stream_gives(
            &format!("requires(dedup, inbox_marks, tombstones, transactions,), address = \"{address}\""),
            ITEM,
            &[],
        );
    }
}

#[test]
fn too_many_key_fields() {
    let names: Vec<String> = (0..17).map(|index| format!("f{index}")).collect();
    let fields: Vec<String> = names.iter().map(|name| format!("{name}: u8")).collect();
    let message = "a key has at most 16 fields; group some in a struct that derives `TopicKey`";
    let item = format!("struct S {{ {} }}", fields.join(", "));
    topic_gives(&format!("name = \"a\", version = 1, key({})", names.join(", ")), &item, &[message]);
    key_gives(&item, &[message]);
    assert_eq!(messages(&topic_key(&item.replace(", f16: u8", ""))), [""; 0]);
}

#[test]
fn keys_that_are_refused() {
    let owned = "a key is owned, but this field borrows; use an owned type such as `String`";
    key_gives("struct K(&'static str);", &[owned]);
    key_gives("struct K<'a> { a: &'a str, b: Cow<'a, str>, c: u8 }", &[owned, owned]);
    key_gives(
        "struct K<'a>(u8);",
        &["a key is owned, but this type has a lifetime; remove it and use owned types such as `String`"],
    );
    key_gives("union U { a: u8 }", &["a union can't be a key; use a struct, or an enum of unit variants"]);
    key_gives("enum E {}", &["`E` has no variants, so there is no key; add one, or use a unit struct"]);
    let data = "make the key a struct with an enum of unit variants beside it";
    key_gives(
        "enum E { A(u8), B, C { c: u8 } }",
        &[&format!("the variant `A` holds data; {data}"), &format!("the variant `C` holds data; {data}")],
    );
    key_gives(
        "enum E { A, #[topic_key(rename = \"A\")] B }",
        &["the variants `A` and `B` have the same text `A`; give one another with `#[topic_key(rename = \"..\")]`"],
    );
}

#[test]
fn bad_key_words() {
    key_gives("#[topic_key(crat = ::a)] struct K;", &["unknown word `crat`; write `crate` (the only word is `crate`)"]);
    key_gives("#[topic_key(rename = \"a\")] struct K;", &["unknown word `rename`; the only word is `crate`"]);
    key_gives(
        "enum E { #[topic_key(Rename = \"a\", crate = ::a)] A, #[topic_key] B }",
        &[
            "unknown word `Rename`; write `rename` (the only word is `rename`)",
            "unknown word `crate`; the only word is `rename`",
            "`#[topic_key]` has no words; write `#[topic_key(rename = \"text\")]`",
        ],
    );
    key_gives(
        "enum E { #[topic_key(rename = a)] A, #[topic_key(rename = \"x\")] #[topic_key(rename = \"y\")] B }",
        &["`rename` takes a string literal; write `rename = \"text\"`", "`rename` is given twice; keep one"],
    );
    key_gives(
        "struct K { #[topic_key(rename = \"a\")] a: u8 }",
        &["`#[topic_key(..)]` has no words for a field; put it on the struct, or remove it"],
    );
}
