//! The catalog as a whole: first start, keys, sign-ins and games.

use model::batch::KeyClass;

use super::sign_ins::SIGN_IN_S;
use super::*;

fn open() -> (tempfile::TempDir, Catalog, InitialKeys) {
    let folder = tempfile::tempdir().unwrap();
    let (catalog, initial) = Catalog::open(folder.path(), 100).unwrap();
    catalog.save().unwrap();
    (folder, catalog, initial.expect("a new folder gets initial keys"))
}

#[test]
fn first_start_creates_a_demo_game_and_keys_that_work_after_a_restart() {
    let (folder, _, initial) = open();
    let (catalog, again) = Catalog::open(folder.path(), 100).unwrap();
    assert!(again.is_none());
    let access = catalog.access(&initial.secret_key, None, 100).unwrap();
    assert_eq!(
        (access.game.id.as_str(), access.class, access.scopes),
        ("demo", KeyClass::Secret, Scopes::ALL)
    );
    let access = catalog.access(&initial.game.public_key, None, 100).unwrap();
    assert_eq!((access.class, access.may(Scope::EventsWrite)), (KeyClass::Public, true));
    assert!(!access.may(Scope::Query));
}

#[test]
fn a_first_start_that_did_not_save_is_followed_by_another_first_start() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Catalog::open(folder.path(), 100).unwrap().1;
    let (first, second) = (open().expect("a new folder"), open().expect("still a new folder"));
    assert_ne!(first.secret_key, second.secret_key);
}

#[test]
fn the_file_contains_no_secret_and_is_readable_only_by_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, _, initial) = open();
    let path = folder.path().join("catalog.json");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains(&initial.secret_key) && !text.contains(&initial.sign_in_token));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_key_with_a_changed_letter_is_unknown() {
    let (_folder, catalog, initial) = open();
    for at in [6, 20, initial.secret_key.len() - 1] {
        let mut key = initial.secret_key.clone().into_bytes();
        key[at] = if key[at] == b'a' { b'b' } else { b'a' };
        let key = String::from_utf8(key).unwrap();
        assert_eq!(catalog.access(&key, None, 100).unwrap_err(), CatalogError::UnknownKey);
    }
    assert_eq!(catalog.access("", None, 100).unwrap_err(), CatalogError::UnknownKey);
}

#[test]
fn a_rotated_key_and_its_successor_both_work_until_one_is_revoked() {
    let (_folder, catalog, initial) = open();
    let old = catalog.keys("demo").unwrap().remove(0);
    let (key, record) = catalog.rotate_key(&old.id, 100).unwrap();
    assert_eq!(record.scopes, old.scopes);
    assert!(
        catalog.access(&key, None, 100).is_ok() && catalog.access(&initial.secret_key, None, 100).is_ok()
    );
    catalog.revoke_key(&old.id, 101).unwrap();
    assert!(
        catalog.access(&key, None, 100).is_ok() && catalog.access(&initial.secret_key, None, 100).is_err()
    );
}

#[test]
fn a_rotated_public_key_works_until_it_is_revoked() {
    let (_folder, catalog, initial) = open();
    let game = catalog.rotate_public_key("demo").unwrap();
    assert!(
        catalog.access(&game.public_key, None, 1).is_ok()
            && catalog.access(&initial.game.public_key, None, 1).is_ok()
    );
    catalog.revoke_key(&initial.game.public_key, 1).unwrap();
    assert!(
        catalog.access(&game.public_key, None, 1).is_ok()
            && catalog.access(&initial.game.public_key, None, 1).is_err()
    );
}

#[test]
fn a_key_is_unknown_from_the_second_of_its_expiry() {
    let (_folder, catalog, _) = open();
    let (key, _) = catalog.create_key("demo", "job", Scopes::ALL, Some(200), Vec::new(), 100).unwrap();
    assert!(catalog.access(&key, None, 199).is_ok() && catalog.access(&key, None, 200).is_err());
}

#[test]
fn a_key_with_address_ranges_is_rejected_from_other_and_unknown_addresses() {
    let (_folder, catalog, _) = open();
    let office = vec!["203.0.113.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
    let (key, record) = catalog.create_key("demo", "job", Scopes::ALL, None, office, 100).unwrap();
    let from = |address: &str| catalog.access(&key, address.parse().ok(), 100).map(drop);
    assert_eq!((from("203.0.113.9"), from("2001:db8::9")), (Ok(()), Ok(())));
    assert_eq!((from("203.0.114.9"), from("")), (Err(CatalogError::Address), Err(CatalogError::Address)));
    assert_eq!(catalog.rotate_key(&record.id, 100).unwrap().1.cidrs, record.cidrs);
}

#[test]
fn the_sign_in_token_creates_sessions_that_expire() {
    let (_folder, catalog, initial) = open();
    assert!(catalog.sign_in("wrong", 100).is_err() && catalog.sign_in("", 100).is_err());
    let session = catalog.sign_in(&initial.sign_in_token, 100).unwrap();
    assert!(catalog.is_signed_in(&session, 100) && !catalog.is_signed_in(&session, 100 + SIGN_IN_S));
    catalog.sign_out(&session).unwrap();
    assert!(!catalog.is_signed_in(&session, 100));
}

#[test]
fn a_sign_in_link_works_once_and_for_15_minutes() {
    let (folder, catalog, initial) = open();
    assert!(catalog.sign_in(&initial.sign_in_token, 100 + 15 * 60).is_err());
    let session = catalog.sign_in(&initial.sign_in_token, 99 + 15 * 60).unwrap();
    assert!(catalog.sign_in(&initial.sign_in_token, 100).is_err() && catalog.sign_in("", 100).is_err());
    let [old, new] = [false, false].map(|sign_out| catalog.create_sign_in_link(200, sign_out).unwrap());
    assert!(catalog.sign_in(&old, 200).is_err());
    let (reopened, _) = Catalog::open(folder.path(), 200).unwrap();
    assert!(reopened.sign_in(&new, 200 + 15 * 60).is_err());
    let second = reopened.sign_in(&new, 199 + 15 * 60).unwrap();
    assert!(reopened.is_signed_in(&session, 300) && reopened.is_signed_in(&second, 300));
    let last = reopened.create_sign_in_link(300, true).unwrap();
    assert!(!reopened.is_signed_in(&session, 300) && !reopened.is_signed_in(&second, 300));
    assert!(reopened.sign_in(&last, 300).is_ok());
}

#[test]
fn a_sign_in_link_is_used_by_one_of_many_at_once() {
    let (_folder, catalog, initial) = open();
    let signed_in = std::thread::scope(|scope| {
        let attempt = || scope.spawn(|| catalog.sign_in(&initial.sign_in_token, 100).is_ok());
        let attempts: Vec<_> = (0..8).map(|_| attempt()).collect();
        attempts.into_iter().map(|attempt| attempt.join().unwrap()).filter(|it| *it).count()
    });
    assert_eq!(signed_in, 1);
}

#[test]
fn a_sign_in_link_of_an_older_version_is_no_longer_valid() {
    let (folder, _, initial) = open();
    let path = folder.path().join("catalog.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let older: Vec<&str> = text.lines().filter(|line| !line.contains("sign_in_expires_s")).collect();
    std::fs::write(&path, older.join("\n")).unwrap();
    let (catalog, _) = Catalog::open(folder.path(), 100).unwrap();
    assert!(catalog.sign_in(&initial.sign_in_token, 100).is_err());
}

#[test]
fn a_game_needs_a_valid_id_and_a_known_time_zone() {
    let (_folder, catalog, _) = open();
    let create = |id: &str, tz: &str| catalog.create_game(id, "Name", tz).map(|game| game.number);
    assert_eq!(create("word-game", "Europe/Paris"), Ok(2));
    for (id, tz, field) in [("Word", "UTC", "id"), ("word-game", "UTC", "id"), ("other", "Mars/Base", "tz")] {
        assert!(matches!(create(id, tz), Err(CatalogError::Invalid { field: found, .. }) if found == field));
    }
}

#[test]
fn number_of_a_game_is_greater_than_that_of_every_game_that_ever_was() {
    let (folder, catalog, _) = open();
    let create = |catalog: &Catalog, id: &str| catalog.create_game(id, "Name", "UTC").unwrap().number;
    assert_eq!((create(&catalog, "two"), create(&catalog, "three")), (2, 3));
    // The file after game 3 was deleted.
    let path = folder.path().join("catalog.json");
    let mut file: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(file["next_game"], serde_json::Value::Null, "as in files of older versions");
    file["games"].as_array_mut().unwrap().pop();
    file["next_game"] = 4.into();
    std::fs::write(&path, file.to_string()).unwrap();
    let (catalog, _) = Catalog::open(folder.path(), 100).unwrap();
    assert_eq!(create(&catalog, "four"), 4);
    let (catalog, _) = Catalog::open(folder.path(), 100).unwrap();
    assert_eq!(create(&catalog, "five"), 5);
}

#[test]
fn deleted_game_is_remembered_until_its_data_is_gone() {
    let (folder, catalog, _) = open();
    let reopen = || Catalog::open(folder.path(), 100).unwrap().0;
    let fails = |id: &str, confirm: &str| {
        let failure = catalog.delete_game(id, confirm, 300).unwrap_err();
        assert_eq!(reopen().deleted_games(), [], "nothing has changed");
        failure.to_string()
    };
    assert!(fails("none", "Two").contains("no game `none`"));
    let two = catalog.create_game("two", "Two", "UTC").unwrap();
    let (secret, _) = catalog.create_key("two", "", Scopes::ALL, None, Vec::new(), 100).unwrap();
    assert!(fails("two", "Two").contains("archive and export it first"));
    catalog.archive_game("two", 200).unwrap();
    assert!(fails("two", "two").contains("must be the name of the game, `Two`"));
    let deleted = catalog.delete_game("two", "Two", 300).unwrap();
    assert_eq!(deleted, DeletedGame { number: two.number, id: "two".into(), deleted_s: 300 });
    assert_eq!((reopen().game("two"), reopen().deleted_games()), (None, vec![deleted]));
    assert!(reopen().access(&two.public_key, None, 300).is_err());
    assert!(reopen().access(&secret, None, 300).is_err());
    assert!(catalog.create_game("two", "Two", "UTC").unwrap_err().to_string().contains("is being deleted"));
    catalog.finish_deletion(two.number).unwrap();
    assert_eq!(reopen().deleted_games(), []);
    assert_eq!(reopen().create_game("two", "Two", "UTC").unwrap().number, two.number + 1);
    catalog.reload().unwrap();
    for id in ["two", "demo"] {
        catalog.archive_game(id, 400).unwrap();
    }
    catalog.delete_game("two", "Two", 500).unwrap();
    let name = catalog.game("demo").unwrap().name.clone();
    assert!(fails_with(&catalog, "demo", &name).contains("the only game"));
}

fn fails_with(catalog: &Catalog, id: &str, confirm: &str) -> String {
    catalog.delete_game(id, confirm, 500).unwrap_err().to_string()
}

#[test]
fn file_has_the_first_format_until_it_needs_the_second() {
    let (folder, catalog, _) = open();
    let format = || {
        let bytes = std::fs::read(folder.path().join("catalog.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&bytes).unwrap()["format"].clone()
    };
    assert_eq!(format(), 1);
    catalog.archive_game("demo", 200).unwrap();
    assert_eq!(format(), 2);
    assert_eq!(catalog.archive_game("demo", 300).unwrap().archived_s, Some(200));
    let (reopened, _) = Catalog::open(folder.path(), 400).unwrap();
    assert!(reopened.game("demo").unwrap().check_writable().is_err());
    reopened.restore_game("demo").unwrap();
    assert_eq!(format(), 1);
    assert!(reopened.game("demo").unwrap().check_writable().is_ok());
}
