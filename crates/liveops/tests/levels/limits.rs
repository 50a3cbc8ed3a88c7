//! Each limit with its exact refusal.

use liveops;
use liveops::levels::{
    Command, DATA_BYTES_MAX, List, Mode, PAGE_BYTES_MAX, PLAYER_DATA_BYTES_MAX, PLAYER_LEVELS_MAX, Packed,
    Save, THUMB_BYTES_MAX, Viewer,
};

use super::world::{World, level, server};

fn told<T: std::fmt::Debug>(outcome: Result<T, liveops::Refusal>) -> String {
    match outcome {
        Ok(_) => "ok".to_owned(),
        Err(refusal) => {
            format!("{:?} {}: {}", refusal.kind, refusal.field.unwrap_or_default(), refusal.detail)
        }
    }
}

/// Saves a level that the change makes too large, or not.
fn check(change: impl FnOnce(&mut Save), expected: &str) {
    let mut world = World::new();
    let (mut save, blob) = level("abcdefghij01", "ann", "cave", "data");
    change(&mut save);
    assert_eq!(told(world.apply(server(), Command::Save(save), &blob)), expected);
    let list = world.list(&List::of(Mode::Newest));
    assert_eq!(list.total, usize::from(expected == "ok"), "what is refused changes nothing");
}

#[test]
fn names_and_fields_have_limits() {
    check(|save| save.name = "n".repeat(100), "ok");
    check(|save| save.name = "n".repeat(101), "Invalid name: it has at most 100 bytes");
    check(|save| save.name.clear(), "Invalid name: it has 1 to 100 bytes");
    check(|save| save.name = "a\0b".to_owned(), "Invalid name: it has no control characters");
    check(|save| save.player = "p".repeat(128), "ok");
    check(|save| save.player = "p".repeat(129), "Invalid player: it has 1 to 128 bytes");
    check(|save| save.player.clear(), "Invalid player: it has 1 to 128 bytes");
    check(|save| save.player_name = "p".repeat(64), "ok");
    check(|save| save.player_name = "p".repeat(65), "Invalid player_name: it has at most 64 bytes");
    check(|save| save.source = "s".repeat(100), "ok");
    check(|save| save.source = "s".repeat(101), "Invalid source: it has at most 100 bytes");
    check(|save| save.id = "abcdefghij0".to_owned(), "Invalid id: it has 12 lower-case letters and digits");
    check(|save| save.id = "ABCDEFGHIJ01".to_owned(), "Invalid id: it has 12 lower-case letters and digits");
    check(|save| save.data.packed_bytes += 1, "Invalid data: it is not what the command says");
}

#[test]
fn fields_have_limits_of_their_own() {
    let put = |count: usize, value: &'static str| {
        move |save: &mut Save| save.fields.extend((0..count).map(|n| (format!("f{n:02}"), value.to_owned())))
    };
    check(put(20, "x"), "ok");
    check(put(21, "x"), "Invalid fields: there are at most 20");
    check(|save| drop(save.fields.insert("f".into(), "v".repeat(999))), "ok");
    check(
        |save| drop(save.fields.insert("f".into(), "v".repeat(1000))),
        "Invalid fields: they have at most 1000 bytes together",
    );
    check(
        |save| drop(save.fields.insert("f".into(), "v".repeat(1001))),
        "Invalid fields.f: it has at most 1000 bytes",
    );
    check(
        |save| drop(save.fields.insert("a b".into(), "v".into())),
        "Invalid fields: a field's name has 1 to 100 letters, digits, . _ -",
    );
}

#[test]
fn data_and_pictures_have_limits() {
    let pack = |data: &str, thumb: Option<&str>| told(Packed::new(data, thumb).map(|_| ()));
    assert_eq!(pack(&"d".repeat(DATA_BYTES_MAX), None), "ok");
    assert_eq!(pack(&"d".repeat(DATA_BYTES_MAX + 1), None), "Invalid data: it has 1 to 3145728 bytes");
    assert_eq!(pack("", None), "Invalid data: it has 1 to 3145728 bytes");
    let start = "data:image/png;base64,";
    let png = |bytes: usize| start.to_owned() + &"A".repeat(bytes - start.len());
    assert_eq!(pack("d", Some(&png(THUMB_BYTES_MAX))), "ok");
    assert_eq!(pack("d", Some(&png(THUMB_BYTES_MAX + 1))), "Invalid thumb: it has at most 65536 bytes");
    let other = "Invalid thumb: it is a data URL of a PNG, JPEG, GIF or WebP picture in base64";
    for thumb in [
        "",
        "https://game.example/a.png",
        "data:image/svg+xml;base64,AAAA",
        "data:text/html;base64,AAAA",
        "data:image/png,AAAA",
        "data:image/png;base64,<script>",
        "data:image/png;base64,A A",
    ] {
        assert_eq!(pack("d", Some(thumb)), other, "{thumb}");
    }
}

#[test]
fn the_same_text_is_packed_the_same_every_time() {
    let text = "level ".repeat(1000);
    let (one, two) = (Packed::new(&text, None).expect("small"), Packed::new(&text, None).expect("small"));
    assert_eq!((one.blob.clone(), one.data), (two.blob, two.data));
    assert!(one.blob.len() < 100, "it is compressed");
}

#[test]
fn ratings_are_one_to_ten() {
    let mut world = World::new();
    let (save, blob) = level("abcdefghij01", "ann", "cave", "data");
    world.apply(server(), Command::Save(save), &blob).expect("saved");
    let mut rate = |player: &str, rating: u8| {
        let (id, player) = ("abcdefghij01".to_owned(), player.to_owned());
        told(world.apply(server(), Command::Rate { id, player, rating }, &[]).map(|answer| answer.status))
    };
    assert_eq!(rate("bob", 0), "Invalid rating: it is 1 to 10");
    assert_eq!(rate("bob", 11), "Invalid rating: it is 1 to 10");
    assert_eq!(rate("", 5), "Invalid player: it has 1 to 128 bytes");
    assert_eq!(rate("null", 5), "Invalid player: this id stands for nobody in particular");
    assert_eq!((rate("bob", 1), rate("bob", 10)), ("ok".to_owned(), "ok".to_owned()));
}

#[test]
fn a_player_has_so_many_levels_and_so_much_data() {
    let mut world = World::new();
    let mut save = |player: &str, number: usize, data: &str| {
        let (save, blob) = level(&format!("{player}{number:0>9}"), player, &format!("level {number}"), data);
        told(world.apply(server(), Command::Save(save), &blob))
    };
    for number in 0..PLAYER_LEVELS_MAX {
        assert_eq!(save("ann", number, "data"), "ok");
    }
    let full = "TooMany player: a player has at most 1000 levels";
    assert_eq!(save("ann", PLAYER_LEVELS_MAX, "data"), full);
    let large = "d".repeat(DATA_BYTES_MAX);
    let fit = (PLAYER_DATA_BYTES_MAX as usize) / DATA_BYTES_MAX;
    for number in 0..fit {
        assert_eq!(save("bob", number, &large), "ok");
    }
    let full = "TooMany data: a player has at most 67108864 bytes of data";
    assert_eq!(save("bob", fit, &large), full);
    assert_eq!(save("bob", fit, "data"), "ok");
}

#[test]
fn a_page_has_so_much_data() {
    let mut world = World::new();
    for number in 0..3 {
        let data = "d".repeat(DATA_BYTES_MAX);
        let (save, blob) = level(&format!("abcdefghij0{number}"), "ann", &format!("level {number}"), &data);
        world.apply(server(), Command::Save(save), &blob).expect("saved");
    }
    let mut list = List { data: true, viewer: Viewer::Moderator, ..List::of(Mode::Newest) };
    let game = world.game();
    let game = game.read();
    let refused = game.levels.list(&list, world.now_ms, "UTC").expect_err("too large").to_string();
    let bytes = 3 * DATA_BYTES_MAX;
    let said =
        format!("this page would have {bytes} bytes of data and pictures, at most {PAGE_BYTES_MAX} go");
    assert_eq!(refused, said);
    list.per_page = 2;
    assert_eq!(game.levels.list(&list, world.now_ms, "UTC").expect("it fits").levels.len(), 2);
}
