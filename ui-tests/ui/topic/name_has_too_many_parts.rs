use tidings::topic;

#[topic(name = "a.b.c.d.e.f.g.h.i", version = 1)]
pub struct OrderPlaced {
    pub region: String,
    pub order: u64,
}

fn main() {}
