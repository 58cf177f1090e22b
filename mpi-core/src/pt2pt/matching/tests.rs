use super::*;
use proptest::prelude::*;

/// An operation on a queue. Keys are drawn from a small space so that they collide.
#[derive(Clone, Debug)]
enum Step {
    Add(Key),
    Take(Key),
    Remove(usize),
}

fn key(wild: bool) -> impl Strategy<Value = Key> {
    let least = if wild { -1 } else { 0 };
    (0..2u64, least..3i32, least..3i32).prop_map(|(context, source, tag)| Key {
        context,
        source: if source < 0 { ANY_SOURCE } else { source },
        tag: if tag < 0 { ANY_TAG } else { tag },
    })
}

fn steps(add_wild: bool, take_wild: bool) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(
        prop_oneof![
            key(add_wild).prop_map(Step::Add),
            key(take_wild).prop_map(Step::Take),
            (0..8usize).prop_map(Step::Remove),
        ],
        0..200,
    )
}

/// Average number of entries that a search visits.
fn looks(table: &Table, next: impl Fn(u32) -> u32) -> f64 {
    let (mut all, mut looks) = (0.0, 0.0);
    for list in &table.lists {
        let mut index = list.head;
        let mut place = 0.0;
        while index != NIL {
            place += 1.0;
            all += 1.0;
            looks += place;
            index = next(index);
        }
    }
    looks / all
}

#[test]
fn searches_stay_short_for_any_queue_length() {
    const MANY: i32 = 100_000;
    let key = |context, source, tag| Key {
        context,
        source,
        tag,
    };
    type Pattern = (&'static str, Box<dyn Fn(i32) -> Key>);
    let patterns: [Pattern; 8] = [
        ("tags", Box::new(move |i| key(4, 1, i))),
        ("tags downwards", Box::new(move |i| key(4, 1, i32::MAX - i))),
        ("every 1,024th tag", Box::new(move |i| key(4, 1, i << 10))),
        ("high bits of tags", Box::new(move |i| key(4, 1, i << 14))),
        ("sources", Box::new(move |i| key(4, i, 7))),
        (
            "sources and tags",
            Box::new(move |i| key(4, i % 300, i / 300)),
        ),
        ("contexts", Box::new(move |i| key(8 * i as u64, 1, 7))),
        (
            "leaders",
            Box::new(move |i| key((i as u64) << 32 | 8, 1, 7)),
        ),
    ];
    for (name, key) in patterns {
        let mut posted = PostedQueue::new();
        let mut unexpected = UnexpectedQueue::new();
        for i in 0..MANY {
            posted.post(key(i), i);
            unexpected.push(key(i), i);
        }
        let entries = &posted.entries;
        let one = looks(&posted.table, |i| entries[i as usize].links.next);
        let entries = &unexpected.entries;
        let two = looks(&unexpected.table, |i| entries[i as usize].in_list.next);
        println!("{name}: {one:.2} receives and {two:.2} messages looked at");
        assert!(one < 4.0 && two < 4.0);
    }
}

proptest! {
    #[test]
    fn posted_queue_is_a_list_searched_from_the_front(steps in steps(true, false)) {
        let mut queue = PostedQueue::new();
        let mut model: Vec<(Key, usize, EntryId)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Add(key) => {
                    let place = queue.post(key, number);
                    model.push((key, number, place));
                }
                Step::Take(key) => {
                    let at = model.iter().position(|(posted, ..)| posted.accepts(&key));
                    let expected = at.map(|at| model.remove(at).1);
                    prop_assert_eq!(queue.take_match(&key), expected);
                }
                Step::Remove(at) if at < model.len() => {
                    let (_, number, place) = model.remove(at);
                    prop_assert_eq!(queue.remove(place), Some(number));
                    prop_assert_eq!(queue.remove(place), None);
                }
                Step::Remove(_) => {}
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert!(queue.iter().map(|(_, n)| *n).eq(model.iter().map(|m| m.1)));
        }
    }

    #[test]
    fn unexpected_queue_is_a_list_searched_from_the_front(steps in steps(false, true)) {
        let mut queue = UnexpectedQueue::new();
        let mut model: Vec<(Key, usize)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Add(key) => {
                    queue.push(key, number);
                    model.push((key, number));
                }
                Step::Take(key) => {
                    let at = model.iter().position(|(message, _)| key.accepts(message));
                    prop_assert_eq!(queue.find(&key).map(|f| *f.2), at.map(|at| model[at].1));
                    let expected = at.map(|at| model.remove(at));
                    prop_assert_eq!(queue.take(&key), expected);
                }
                Step::Remove(at) => {
                    let Some(&(key, number)) = model.get(at) else {
                        continue;
                    };
                    let other = Key { tag: key.tag + 1, ..key };
                    prop_assert_eq!(queue.take_where(&other, |n| *n == number), None);
                    let expected = Some(model.remove(at));
                    prop_assert_eq!(queue.take_where(&key, |n| *n == number), expected);
                }
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert!(queue.iter().map(|(_, n)| *n).eq(model.iter().map(|m| m.1)));
        }
    }
}
