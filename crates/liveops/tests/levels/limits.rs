//! The limits and their exact messages.

use liveops::levels::{
    DATA_BYTES_MAX, LevelCommand, LevelMode, LevelQuery, LevelViewer, PAGE_BYTES_MAX, PLAYER_DATA_BYTES_MAX,
    PLAYER_LEVELS_MAX, PackedLevel, SaveLevel, THUMB_BYTES_MAX,
};

use super::world::{World, level, server};

fn describe<T: std::fmt::Debug>(outcome: Result<T, liveops::Refusal>) -> String {
    match outcome {
        Ok(_) => "ok".to_owned(),
        Err(refusal) => {
            format!("{:?} {}: {}", refusal.kind, refusal.field.unwrap_or_default(), refusal.detail)
        }
    }
}

/// Saves a changed level and compares the outcome.
fn check(change: impl FnOnce(&mut SaveLevel), expected: &str) {
    let mut world = World::new();
    let (mut save, blob) = level("abcdefghij01", "ann", "cave", "data");
    change(&mut save);
    assert_eq!(describe(world.apply(server(), LevelCommand::Save(save), &blob)), expected);
    let list = world.list(&LevelQuery::of(LevelMode::Newest));
    assert_eq!(list.total, usize::from(expected == "ok"), "what is refused changes nothing");
}

#[test]
fn names_have_limits() {
    check(|save| save.name = "n".repeat(100), "ok");
    check(|save| save.name = "n".repeat(101), "Invalid name: must have at most 100 bytes");
    check(|save| save.name.clear(), "Invalid name: must have 1 to 100 bytes");
    check(|save| save.name = "a\0b".to_owned(), "Invalid name: must not have control characters");
    check(|save| save.player = "p".repeat(128), "ok");
    check(
        |save| save.player = "p".repeat(129),
        "Invalid player: must have 1 to 128 bytes and no control characters",
    );
    check(|save| save.player.clear(), "Invalid player: must have 1 to 128 bytes and no control characters");
    check(|save| save.player_name = "p".repeat(64), "ok");
    check(|save| save.player_name = "p".repeat(65), "Invalid player_name: must have at most 64 bytes");
    check(|save| save.source = "s".repeat(100), "ok");
    check(|save| save.source = "s".repeat(101), "Invalid source: must have at most 100 bytes");
    check(
        |save| save.id = "abcdefghij0".to_owned(),
        "Invalid id: must have 12 lower-case letters and digits",
    );
    check(
        |save| save.id = "ABCDEFGHIJ01".to_owned(),
        "Invalid id: must have 12 lower-case letters and digits",
    );
    check(|save| save.data.packed_bytes += 1, "Invalid data: must have the length that the command states");
}

#[test]
fn fields_have_limits() {
    let put = |count: usize, value: &'static str| {
        move |save: &mut SaveLevel| {
            save.fields.extend((0..count).map(|n| (format!("f{n:02}"), value.to_owned())))
        }
    };
    check(put(20, "x"), "ok");
    check(put(21, "x"), "Invalid fields: must have at most 20 entries");
    check(|save| drop(save.fields.insert("f".into(), "v".repeat(999))), "ok");
    check(
        |save| drop(save.fields.insert("f".into(), "v".repeat(1000))),
        "Invalid fields: must have at most 1000 bytes together",
    );
    check(
        |save| drop(save.fields.insert("f".into(), "v".repeat(1001))),
        "Invalid fields.f: must have at most 1000 bytes",
    );
    check(
        |save| drop(save.fields.insert("a b".into(), "v".into())),
        "Invalid fields: field names must have 1 to 100 letters, digits, `.`, `_` or `-`",
    );
}

#[test]
fn data_and_thumbnails_have_limits() {
    let pack = |data: &str, thumb: Option<&str>| describe(PackedLevel::new(data, thumb).map(|_| ()));
    assert_eq!(pack(&"d".repeat(DATA_BYTES_MAX), None), "ok");
    assert_eq!(pack(&"d".repeat(DATA_BYTES_MAX + 1), None), "Invalid data: must have 1 to 3145728 bytes");
    assert_eq!(pack("", None), "Invalid data: must have 1 to 3145728 bytes");
    let start = "data:image/png;base64,";
    let png = |bytes: usize| start.to_owned() + &"A".repeat(bytes - start.len());
    assert_eq!(pack("d", Some(&png(THUMB_BYTES_MAX))), "ok");
    assert_eq!(pack("d", Some(&png(THUMB_BYTES_MAX + 1))), "Invalid thumb: must have at most 65536 bytes");
    let other = "Invalid thumb: must be a base64 data URL of a PNG, JPEG, GIF or WebP picture";
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
fn compression_is_deterministic() {
    let text = "level ".repeat(1000);
    let (one, two) =
        (PackedLevel::new(&text, None).expect("small"), PackedLevel::new(&text, None).expect("small"));
    assert_eq!((one.blob.clone(), one.data), (two.blob, two.data));
    assert!(one.blob.len() < 100, "it is compressed");
}

#[test]
fn rating_is_between_1_and_10() {
    let mut world = World::new();
    let (save, blob) = level("abcdefghij01", "ann", "cave", "data");
    world.apply(server(), LevelCommand::Save(save), &blob).expect("saved");
    let mut rate = |player: &str, rating: u8| {
        let (id, player) = ("abcdefghij01".to_owned(), player.to_owned());
        describe(
            world.apply(server(), LevelCommand::Rate { id, player, rating }, &[]).map(|answer| answer.status),
        )
    };
    assert_eq!(rate("bob", 0), "Invalid rating: must be between 1 and 10");
    assert_eq!(rate("bob", 11), "Invalid rating: must be between 1 and 10");
    assert_eq!(rate("", 5), "Invalid player: must have 1 to 128 bytes and no control characters");
    assert_eq!(rate("null", 5), "Invalid player: is a placeholder, not the id of a player");
    assert_eq!((rate("bob", 1), rate("bob", 10)), ("ok".to_owned(), "ok".to_owned()));
}

#[test]
fn levels_and_data_of_a_player_are_limited() {
    let mut world = World::new();
    let mut save = |player: &str, number: usize, data: &str| {
        let (save, blob) = level(&format!("{player}{number:0>9}"), player, &format!("level {number}"), data);
        describe(world.apply(server(), LevelCommand::Save(save), &blob))
    };
    for number in 0..PLAYER_LEVELS_MAX {
        assert_eq!(save("ann", number, "data"), "ok");
    }
    let full = "TooMany player: a player can have at most 1000 levels";
    assert_eq!(save("ann", PLAYER_LEVELS_MAX, "data"), full);
    let large = "d".repeat(DATA_BYTES_MAX);
    let fit = (PLAYER_DATA_BYTES_MAX as usize) / DATA_BYTES_MAX;
    for number in 0..fit {
        assert_eq!(save("bob", number, &large), "ok");
    }
    let full = "TooMany data: a player can have at most 67108864 bytes of level data";
    assert_eq!(save("bob", fit, &large), full);
    assert_eq!(save("bob", fit, "data"), "ok");
}

#[test]
fn data_of_a_page_is_limited() {
    let mut world = World::new();
    for number in 0..3 {
        let data = "d".repeat(DATA_BYTES_MAX);
        let (save, blob) = level(&format!("abcdefghij0{number}"), "ann", &format!("level {number}"), &data);
        world.apply(server(), LevelCommand::Save(save), &blob).expect("saved");
    }
    let mut list =
        LevelQuery { data: true, viewer: LevelViewer::Moderator, ..LevelQuery::of(LevelMode::Newest) };
    let game = world.game();
    let game = game.read();
    let refused = game.levels.list(&list, world.now_ms, "UTC").expect_err("too large").to_string();
    let bytes = 3 * DATA_BYTES_MAX;
    let expected = format!(
        "the page would have {bytes} bytes of data and thumbnails; the limit is {PAGE_BYTES_MAX}, so request fewer levels"
    );
    assert_eq!(refused, expected);
    list.per_page = 2;
    assert_eq!(game.levels.list(&list, world.now_ms, "UTC").expect("it fits").levels.len(), 2);
}
