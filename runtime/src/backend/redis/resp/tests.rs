use bytes::BytesMut;
use proptest::prelude::*;
use redis::ValueCodec;
use tokio_util::codec::Decoder;

use super::*;

/// Any value that both parsers know, as it goes over the wire.
fn wire() -> impl Strategy<Value = Vec<u8>> {
    fn text(kind: char, bytes: &[u8]) -> Vec<u8> {
        [format!("{kind}{}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
    }
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    let leaf = prop_oneof![
        bytes().prop_map(|bytes| text('$', &bytes)),
        "[ -~]{0,20}".prop_map(|line| format!("+{line}\r\n").into_bytes()),
        any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
        any::<bool>().prop_map(|truth| format!("#{}\r\n", if truth { 't' } else { 'f' }).into_bytes()),
        Just(b"_\r\n".to_vec()),
        Just(b"$-1\r\n".to_vec()),
        Just(b"*-1\r\n".to_vec()),
        "[a-z ]{0,20}".prop_map(|words| text('=', format!("txt:{words}").as_bytes())),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let list = |kind: char, per: usize| {
            proptest::collection::vec(inner.clone(), 0..6).prop_map(move |values| {
                let count = values.len() / per;
                let mut bytes = format!("{kind}{count}\r\n").into_bytes();
                bytes.extend(values[..count * per].concat());
                bytes
            })
        };
        prop_oneof![list('*', 1), list('~', 1), list('%', 2)]
    })
}

fn same(ours: &Value, theirs: &redis::Value) -> bool {
    let all = |ours: &[Value], theirs: &[&redis::Value]| {
        ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
    };
    match (ours, theirs) {
        (Value::Nil, redis::Value::Nil) => true,
        (Value::Number(ours), redis::Value::Int(theirs)) => ours == theirs,
        (Value::Number(ours), redis::Value::Boolean(theirs)) => *ours == i64::from(*theirs),
        (Value::Text(ours), redis::Value::BulkString(theirs)) => ours == theirs,
        (Value::Text(ours), redis::Value::SimpleString(theirs)) => ours == theirs.as_bytes(),
        (Value::Text(ours), redis::Value::VerbatimString { text, .. }) => ours == text.as_bytes(),
        (Value::Text(ours), redis::Value::Okay) => &ours[..] == b"OK",
        (Value::List(ours), redis::Value::Array(theirs) | redis::Value::Set(theirs)) => {
            all(ours, &theirs.iter().collect::<Vec<_>>())
        }
        (Value::List(ours), redis::Value::Map(pairs)) => {
            all(ours, &pairs.iter().flat_map(|(key, value)| [key, value]).collect::<Vec<_>>())
        }
        _ => false,
    }
}

/// Gives the bytes in chunks of these sizes, and returns the frames.
fn frames(bytes: &[u8], chunks: &[usize]) -> Result<Vec<Bytes>, Fault> {
    let mut unread = BytesMut::new();
    let mut scan = Scan::default();
    let mut frames = Vec::new();
    let mut rest = bytes;
    let mut sizes = chunks.iter().copied().cycle();
    while !rest.is_empty() {
        let size = sizes.next().unwrap_or(1).clamp(1, rest.len());
        unread.extend_from_slice(&rest[..size]);
        rest = &rest[size..];
        while let Some(length) = if unread.is_empty() { None } else { scan.frame(&unread)? } {
            frames.push(unread.split_to(length).freeze());
        }
    }
    Ok(frames)
}

proptest! {
    #[test]
    fn values_are_those_of_the_client_crate_over_any_chunks(
        values in proptest::collection::vec(wire(), 1..5),
        chunks in proptest::collection::vec(1..30_usize, 1..20),
    ) {
        let frames = frames(&values.concat(), &chunks).unwrap();
        prop_assert_eq!(frames.len(), values.len());
        for (frame, value) in frames.iter().zip(&values) {
            prop_assert_eq!(frame, value);
            let theirs = ValueCodec::default().decode(&mut BytesMut::from(&value[..])).unwrap().unwrap();
            let mut cursor = Cursor::new(frame);
            let ours = cursor.value().unwrap();
            prop_assert!(same(&ours, &theirs), "{:?} {:?}", ours, theirs);
            prop_assert_eq!(cursor.left(), 0);
            let mut skipping = Cursor::new(frame);
            skipping.skip().unwrap();
            prop_assert_eq!(skipping.left(), 0);
        }
    }

    #[test]
    fn garbage_is_a_fault_and_no_panic(
        mut bytes in wire(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        chunks in proptest::collection::vec(1..30_usize, 1..5),
    ) {
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        for frame in frames(&bytes, &chunks).unwrap_or_default() {
            let _ = Cursor::new(&frame).value();
        }
        // Whatever is taken for a whole reply ends where it ends, so that reading it as anything is no panic either.
        let whole = Bytes::from(bytes);
        for read in [
            |cursor: &mut Cursor<'_>| cursor.id().map(drop),
            |cursor: &mut Cursor<'_>| cursor.list().map(drop),
            |cursor: &mut Cursor<'_>| cursor.number().map(drop),
            |cursor: &mut Cursor<'_>| cursor.bytes().map(drop),
            |cursor: &mut Cursor<'_>| cursor.skip(),
        ] {
            let _ = read(&mut Cursor::new(&whole));
        }
    }
}

#[test]
fn sizes_are_bounded_before_they_are_believed() {
    for bytes in [
        &b"$536870913\r\n"[..],
        b"$99999999999999999999\r\n",
        b"$-2\r\n",
        b"*18446744073709551615\r\n*18446744073709551615\r\n",
        b"%18446744073709551615\r\n",
        b"$1\r\nabc",
        b"?\r\n",
        b"\r\n",
        b":1\rx",
    ] {
        assert!(Scan::default().frame(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
    }
    assert!(Scan::default().frame(&vec![b'+'; MOST_LINE_BYTES + 2]).is_err());
    let deep = Bytes::from([b"*1\r\n".repeat(100_000), b":1\r\n".to_vec()].concat());
    assert_eq!(Scan::default().frame(&deep).unwrap(), Some(deep.len()));
    assert!(Cursor::new(&deep).value().is_err());
}
