//! Applying the changes leads to the newest state, from any earlier state.

use std::collections::HashSet;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::replica::DocumentReplica;

fn document(id: &str, value: &str) -> Arc<Document> {
    let fields = match value {
        "" => DocumentFields::default(),
        value => DocumentFields::from([("v", JsonText::of(value))]),
    };
    Arc::new(Document { id: id.into(), fields })
}

/// Parses `a1 b2`: documents with one field.
fn documents(number: u64, is_ranked: bool, text: &str) -> DocumentSet {
    let list = text.split_whitespace().map(|word| document(&word[..1], &word[1..])).collect();
    DocumentSet::new(number, is_ranked, list)
}

fn describe(change: &DocumentChange) -> String {
    let before = |before: &Option<DocumentId>| before.as_deref().unwrap_or("end").to_owned();
    let text = |fields: &DocumentFields| fields.get("v").map_or("", JsonText::text).replace('"', "");
    match change {
        DocumentChange::Added(document, None) => format!("+{}{}", document.id, text(&document.fields)),
        DocumentChange::Added(document, Some(next)) => {
            format!("+{}{}<{}", document.id, text(&document.fields), before(next))
        }
        DocumentChange::Changed(id, fields, cleared) => {
            format!("~{id}{}{}", text(fields), "!".repeat(cleared.len()))
        }
        DocumentChange::Moved(id, next) => format!("={id}<{}", before(next)),
        DocumentChange::Removed(id) => format!("-{id}"),
    }
}

fn check(is_ranked: bool, before: &str, after: &str, expected: &str) {
    let (before, after) = (documents(1, is_ranked, before), documents(2, is_ranked, after));
    let changes: Vec<String> = after.step_since(&before).changes.iter().map(describe).collect();
    assert_eq!(changes.join(" "), expected);
}

#[test]
fn step_contains_only_changed_documents() {
    check(false, "a1 b2", "a1 b2", "");
    check(false, "", "a1", "+a1");
    check(false, "a1 b2", "b2", "-a");
    check(false, "a1", "a2", "~a2");
    check(false, "a1", "a", "~a!");
    check(false, "a1 b2 c3", "d4 b5", "-a -c +d4 ~b5");
}

#[test]
fn positions_are_sent_only_for_ranked_lists() {
    check(false, "a1 b2", "b2 a1", "");
    check(true, "a1 b2", "b2 a1", "=b<a");
    check(true, "a1 b2", "a1 x b3", "+x<b ~b3");
    check(true, "", "a1 b2", "+b2<end +a1<b");
}

#[test]
fn document_that_overtakes_many_is_one_move() {
    check(true, "a b c d e f g h", "h a b c d e f g", "=h<a");
    check(true, "a b c d e f g h", "b c d e f g h a", "=a<end");
}

#[test]
fn step_from_the_same_state_is_computed_once() {
    let (oldest, older) = (documents(1, false, "a1"), documents(2, false, "a2"));
    let newest = documents(3, false, "a3");
    assert!(Arc::ptr_eq(&newest.step_since(&older), &newest.step_since(&older)));
    assert!(Arc::ptr_eq(&newest.step_since(&oldest), &newest.step_since(&oldest)));
    assert!(Arc::ptr_eq(&newest.full_step(), &newest.full_step()));
}

#[test]
fn step_is_encoded_once_for_each_collection() {
    let step = documents(1, false, "a1").full_step();
    let key = |name: &str| EncodingKey { collection: name.into(), is_ordered: true };
    let first = step.encoded(&key("c"), |_| Bytes::from_static(b"once"));
    let second = step.encoded(&key("c"), |_| unreachable!("it is already encoded"));
    assert_eq!(first, second);
    assert_eq!(step.encoded(&key("d"), |_| Bytes::from_static(b"other")), "other");
}

#[test]
fn fields_are_serialized_as_an_object() {
    let fields = DocumentFields::from([("a", JsonText::of(&1)), ("b", JsonText::raw(r#"{"c":[null,"d"]}"#))]);
    let text = serde_json::to_string(&fields).expect("it can be serialized");
    assert_eq!(text, r#"{"a":1,"b":{"c":[null,"d"]}}"#);
    let object = serde_json::json!({ "x": "y" });
    let Value::Object(object) = object else { unreachable!("it is an object") };
    assert_eq!(DocumentFields::of(&object).get("x").map(JsonText::text), Some("\"y\""));
}

fn any_state() -> impl Strategy<Value = Vec<Arc<Document>>> {
    let any_document =
        (0u8..12, 0u8..3).prop_map(|(id, value)| document(&id.to_string(), &"x".repeat(value.into())));
    prop::collection::vec(any_document, 0..14).prop_map(|mut documents| {
        let mut seen = HashSet::new();
        documents.retain(|document| seen.insert(Arc::clone(&document.id)));
        documents
    })
}

proptest! {
    #[test]
    fn applying_changes_leads_to_the_newest_state(
        states in prop::collection::vec((any_state(), any::<bool>()), 1..8), is_ranked: bool,
    ) {
        let mut known = DocumentSet::default();
        let mut replica = DocumentReplica::default();
        for (number, (list, is_delivered)) in (1..).zip(states) {
            let newest = DocumentSet::new(number, is_ranked, list);
            if is_delivered {
                replica.apply(&newest.step_since(&known).changes);
                prop_assert_eq!(replica.read(is_ranked), DocumentReplica::of(&newest).read(is_ranked));
                known = newest;
            }
        }
        replica.apply(&known.removals());
        prop_assert!(replica.read(is_ranked).is_empty());
    }
}
