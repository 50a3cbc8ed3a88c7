//! Following the changes leads to the newest state, from whichever state before.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::copy::Copy;

fn doc(id: &str, value: &str) -> Arc<Doc> {
    let fields = match value {
        "" => Fields::default(),
        value => Fields::from([("v", Json::of(value))]),
    };
    Arc::new(Doc { id: id.into(), fields })
}

/// `a1 b2`: documents with a field.
fn docs(number: u64, is_ranked: bool, text: &str) -> Docs {
    let list = text.split_whitespace().map(|word| doc(&word[..1], &word[1..])).collect();
    Docs::new(number, is_ranked, list)
}

fn word(change: &Change) -> String {
    let before = |before: &Option<Id>| before.as_deref().unwrap_or("end").to_owned();
    let text = |fields: &Fields| fields.get("v").map_or("", Json::text).replace('"', "");
    match change {
        Change::Added(doc, None) => format!("+{}{}", doc.id, text(&doc.fields)),
        Change::Added(doc, Some(next)) => format!("+{}{}<{}", doc.id, text(&doc.fields), before(next)),
        Change::Changed(id, fields, cleared) => format!("~{id}{}{}", text(fields), "!".repeat(cleared.len())),
        Change::Moved(id, next) => format!("={id}<{}", before(next)),
        Change::Removed(id) => format!("-{id}"),
    }
}

fn check(is_ranked: bool, before: &str, after: &str, expected: &str) {
    let (before, after) = (docs(1, is_ranked, before), docs(2, is_ranked, after));
    let words: Vec<String> = after.since(&before).changes.iter().map(word).collect();
    assert_eq!(words.join(" "), expected);
}

#[test]
fn only_what_changed_is_told() {
    check(false, "a1 b2", "a1 b2", "");
    check(false, "", "a1", "+a1");
    check(false, "a1 b2", "b2", "-a");
    check(false, "a1", "a2", "~a2");
    check(false, "a1", "a", "~a!");
    check(false, "a1 b2 c3", "d4 b5", "-a -c +d4 ~b5");
}

#[test]
fn places_are_told_where_they_count() {
    check(false, "a1 b2", "b2 a1", "");
    check(true, "a1 b2", "b2 a1", "=b<a");
    check(true, "a1 b2", "a1 x b3", "+x<b ~b3");
    check(true, "", "a1 b2", "+b2<end +a1<b");
}

#[test]
fn one_that_overtakes_many_is_one_move() {
    check(true, "a b c d e f g h", "h a b c d e f g", "=h<a");
    check(true, "a b c d e f g h", "b c d e f g h a", "=a<end");
}

#[test]
fn a_step_is_shared_by_all_who_were_at_the_same_state() {
    let (oldest, older) = (docs(1, false, "a1"), docs(2, false, "a2"));
    let newest = docs(3, false, "a3");
    assert!(Arc::ptr_eq(&newest.since(&older), &newest.since(&older)));
    assert!(Arc::ptr_eq(&newest.since(&oldest), &newest.since(&oldest)));
    assert!(Arc::ptr_eq(&newest.whole(), &newest.whole()));
}

#[test]
fn a_step_is_encoded_once_for_each_collection() {
    let step = docs(1, false, "a1").whole();
    let key = |name: &str| EncodingKey { collection: name.into(), is_ordered: true };
    let first = step.encoded(&key("c"), |_| Bytes::from_static(b"once"));
    let second = step.encoded(&key("c"), |_| unreachable!("it is encoded already"));
    assert_eq!(first, second);
    assert_eq!(step.encoded(&key("d"), |_| Bytes::from_static(b"other")), "other");
}

#[test]
fn fields_are_written_as_an_object() {
    let fields = Fields::from([("a", Json::of(&1)), ("b", Json::raw(r#"{"c":[null,"d"]}"#))]);
    assert_eq!(serde_json::to_string(&fields).expect("it can be written"), r#"{"a":1,"b":{"c":[null,"d"]}}"#);
    let object = serde_json::json!({ "x": "y" });
    let Value::Object(object) = object else { unreachable!("it is written above") };
    assert_eq!(Fields::of(&object).get("x").map(Json::text), Some("\"y\""));
}

fn state() -> impl Strategy<Value = Vec<Arc<Doc>>> {
    let some = (0u8..12, 0u8..3).prop_map(|(id, value)| doc(&id.to_string(), &"x".repeat(value.into())));
    prop::collection::vec(some, 0..14).prop_map(|mut docs| {
        let mut seen = HashSet::new();
        docs.retain(|doc| seen.insert(Arc::clone(&doc.id)));
        docs
    })
}

proptest! {
    #[test]
    fn whoever_follows_the_changes_has_the_newest_state(
        states in prop::collection::vec((state(), any::<bool>()), 1..8), is_ranked: bool,
    ) {
        let mut known = Docs::default();
        let mut copy = Copy::default();
        for (number, (list, is_told)) in (1..).zip(states) {
            let newest = Docs::new(number, is_ranked, list);
            if is_told {
                copy.follow(&newest.since(&known).changes);
                prop_assert_eq!(copy.read(is_ranked), Copy::of(&newest).read(is_ranked));
                known = newest;
            }
        }
        copy.follow(&known.gone());
        prop_assert!(copy.read(is_ranked).is_empty());
    }
}
