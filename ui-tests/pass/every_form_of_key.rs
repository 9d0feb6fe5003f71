//! Structs of every form and enums of units are keys, nested as well.
#![deny(warnings)]
#![allow(non_camel_case_types, dead_code)]

use tidings::TopicKey;

#[derive(TopicKey)]
pub struct Named {
    pub region: Region,
    pub tuple: Tuple,
    pub all: All,
}

#[derive(TopicKey)]
pub struct Tuple(pub u8, pub String);

#[derive(TopicKey)]
pub struct Newtype(pub Tuple);

#[derive(TopicKey)]
pub struct All;

#[derive(TopicKey)]
pub struct Empty {}

#[derive(TopicKey)]
pub struct EmptyTuple();

#[derive(TopicKey)]
pub enum Region {
    #[topic_key(rename = "eu-1")]
    Europe,
    America = 5,
}

#[derive(TopicKey)]
pub struct Const<const N: usize>(pub Sized_<N>);

#[derive(TopicKey)]
pub struct Sized_<const N: usize>;

#[derive(TopicKey)]
pub struct Sixteen(u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8);

#[derive(TopicKey)]
pub struct Static {
    pub region: Owned<'static>,
}

#[derive(TopicKey)]
#[allow(dead_code)]
enum One {
    Only,
}

pub struct Owned<'a>(std::marker::PhantomData<&'a str>);

impl TopicKey for Owned<'static> {
    type Parts = ();

    fn write(&self, _: &mut tidings::key::KeyWriter<'_>) {}

    fn read(_: &mut tidings::key::KeyReader<'_>) -> Result<Self, tidings::key::KeyError> {
        Ok(Self(std::marker::PhantomData))
    }
}

fn parts<K: TopicKey<Parts = P>, P>() {}

fn main() {
    parts::<Named, (Region, Tuple, All)>();
    parts::<Newtype, (u8, String)>();
    parts::<Region, (Region,)>();
    parts::<All, ()>();
    parts::<Empty, ()>();
    parts::<EmptyTuple, ()>();
    parts::<Const<3>, ()>();
}
