//! Leaderboards end to end: submissions, credentials, pages, checks and bans.

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::player::Session;
use crate::world::{World, now_ms};

impl World {
    /// Creates a board with these settings.
    fn board(&self, table: &str, settings: Value) {
        let answer = self.on_board("PUT", table, "", settings);
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
    }

    /// Sends a request about a board with the secret key.
    fn on_board(&self, method: &'static str, table: &str, path: &str, body: Value) -> Answer {
        let request = Request::new(method, format!("/v1/boards/{table}{path}")).key(&self.secret_key);
        self.send(&request.body(if body.is_null() { String::new() } else { body.to_string() }))
    }

    /// Submits with the public key.
    fn score(&self, table: &str, score: Value) -> Answer {
        let request = Request::new("POST", format!("/v1/boards/{table}/scores")).key(&self.public_key);
        self.send(&request.body(score.to_string()))
    }

    fn page(&self, table: &str, query: &str) -> Value {
        let answer =
            self.send(&Request::get(format!("/v1/boards/{table}/scores?{query}")).key(&self.public_key));
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        answer.json()
    }

    /// A page as text: rank, player and score of each row.
    fn rows(&self, table: &str, query: &str) -> String {
        let page = self.page(table, query);
        let rows = page["rows"].as_array().expect("rows").iter();
        let lines = rows.map(|row| {
            format!("{} {} {}", row["rank"], row["player"].as_str().expect("a player"), row["score"])
        });
        lines.collect::<Vec<_>>().join(", ")
    }
}

/// A board on which al, bo and cy have 30, 20 and 10 points.
fn world_with_scores(settings: Value) -> World {
    let world = World::new();
    world.board("points", settings);
    for (player, score, car) in [("cy", 10, "red"), ("al", 30, "red"), ("bo", 20, "blue")] {
        let score =
            json!({"player": player, "name": player.to_uppercase(), "score": score, "fields": {"car": car}});
        let answer = world.score("points", score);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    world
}

fn open_settings() -> Value {
    json!({"mode": "open", "filters": ["car"]})
}

#[test]
fn submitted_score_returns_its_rank_in_every_window() {
    let world = world_with_scores(open_settings());
    let saved = world.score("points", json!({"player": "cy", "score": 25})).json();
    let ranks = json!({"day": 2, "week": 2, "month": 2, "season": 2, "all": 2, "24h": 2, "7d": 2, "30d": 2});
    assert_eq!(saved, json!({"saved": true, "best": 25, "rank": 2, "improved_by": 15, "ranks": ranks}));
    let saved = world.score("points", json!({"player": "cy", "score": 24})).json();
    assert_eq!(
        (&saved["saved"], &saved["best"], &saved["improved_by"]),
        (&json!(false), &json!(25), &Value::Null)
    );
}

#[test]
fn board_pages_are_the_same_after_a_restart() {
    let mut world = world_with_scores(open_settings());
    let check = |world: &World| {
        assert_eq!(world.rows("points", ""), "1 al 30, 2 bo 20, 3 cy 10");
        assert_eq!(world.rows("points", "per_page=1&page=2&window=day"), "2 bo 20");
        assert_eq!(world.rows("points", "highest=false"), "1 cy 10, 2 bo 20, 3 al 30");
        assert_eq!(world.rows("points", "by=newest"), "2 bo 20, 1 al 30, 3 cy 10");
        assert_eq!(world.rows("points", "mode=newest&per_page=1"), "2 bo 20");
        assert_eq!(world.rows("points", "filter.car=red"), "1 al 30, 2 cy 10");
        assert_eq!(world.rows("points", "filter.car=green"), "");
        assert_eq!(world.rows("points", "friends=cy,bo,nobody"), "1 bo 20, 2 cy 10");
        assert_eq!(world.rows("points", "around=cy&per_page=2"), "2 bo 20, 3 cy 10");
        assert_eq!(world.rows("points", "player=bo"), "2 bo 20");
        assert_eq!(world.rows("points", "window=day&at=2026-01-01T00:00:00Z"), "");
    };
    check(&world);
    for kill in [true, false] {
        if kill {
            world.kill9();
        } else {
            world.stop();
        }
        world.start();
        check(&world);
    }
    let page = world.page("points", "per_page=2");
    assert_eq!(
        (&page["table"], &page["window"], &page["total"]),
        (&json!("points"), &json!("all"), &json!(3))
    );
    let row = &page["rows"][0];
    assert_eq!(
        (&row["name"], &row["verified"], &row["fields"]),
        (&json!("AL"), &json!(false), &json!({"car": "red"}))
    );
    let at = row["at"].as_str().expect("a time");
    assert!(at.len() == 24 && at.ends_with('Z'), "{at}");
}

#[test]
fn invalid_query_parameter_is_named() {
    let world = world_with_scores(json!({"mode": "open", "windows": ["all", "24h"]}));
    let summary = |query: &str| {
        world.send(&Request::get(format!("/v1/boards/{query}")).key(&world.public_key)).summary()
    };
    assert_eq!(summary("nothing/scores"), "404 not_found");
    assert_eq!(summary("points/scores?window=day"), "400 invalid_field (window)");
    assert_eq!(summary("points/scores?window=24h&at=2026-01-01T00:00:00Z"), "400 invalid_field (at)");
    assert_eq!(summary("points/scores?filter.car=red"), "400 invalid_field (filter.car)");
    assert_eq!(summary("points/scores?season=1"), "404 not_found");
    assert_eq!(summary("points/scores?page=501&by=newest"), "400 invalid_field (page)");
    assert_eq!(summary("points/scores?rank=1"), "400 invalid_field (rank)");
    assert_eq!(summary("nothing"), "404 not_found");
}

#[test]
fn invalid_score_field_is_named() {
    let world = world_with_scores(json!({"mode": "open", "min": 0, "max": 100}));
    let check = |field: &str, value: Value, expected: &str| {
        let mut score = json!({"player": "di", "score": 1});
        score[field] = value;
        assert_eq!(world.score("points", score.clone()).summary(), expected, "{score}");
    };
    for (value, field) in [
        (json!({"player": ""}), "player"),
        (json!({"player": "undefined"}), "player"),
        (json!({"player": "p".repeat(129)}), "player"),
        (json!({"name": "n".repeat(65)}), "name"),
        (json!({"score": "7"}), "score"),
        (json!({"score": null}), "score"),
        (json!({"score": 101}), "score"),
        (json!({"score": -1}), "score"),
        (json!({"score": 1e300}), "score"),
        (json!({"subscore": [1]}), "subscore"),
        (json!({"fields": {"a b": "c"}}), "fields"),
        (json!({"fields": {"a": ""}}), "fields.a"),
        (json!({"fields": {"a": 1}}), "fields.a"),
        (json!({"source": "s".repeat(201)}), "source"),
        (json!({"rank": 1}), "rank"),
        (json!({"verified": true}), "verified"),
    ] {
        let (name, value) = value.as_object().and_then(|it| it.iter().next()).expect("a field");
        check(name, value.clone(), &format!("400 invalid_field ({field})"));
    }
    let unnamed = world.on_board("POST", "a%20b", "/scores", json!({"player": "di", "score": 1}));
    assert_eq!(unnamed.summary(), "400 invalid_field (table)");
    assert_eq!(world.rows("points", ""), "1 al 30, 2 bo 20, 3 cy 10");
}

#[test]
fn decimals_are_kept_exactly() {
    let world = World::new();
    world.board("time", json!({"mode": "open", "order": "asc", "decimals": 3, "min": 0.5}));
    let request = |text: &str| format!(r#"{{"player":"p{text}","score":{text}}}"#);
    let path = "/v1/boards/time/scores";
    for text in ["12.1", "1e1", "12.099", "0.30000000000000004", "0.5"] {
        let request = Request::new("POST", path).key(&world.public_key).body(request(text));
        let answer = world.send(&request);
        assert_eq!(answer.status, if text.len() > 10 { 400 } else { 200 }, "{text}: {}", answer.text());
    }
    assert_eq!(world.rows("time", ""), "1 p0.5 0.5, 2 p1e1 10, 3 p12.099 12.099, 4 p12.1 12.1");
}

#[test]
fn score_with_more_decimals_than_the_board_is_rejected() {
    let world = World::new();
    let submit = |table: &str, score: Value| {
        world
            .on_board("POST", table, "/scores", json!({"player": format!("p{score}"), "score": score}))
            .summary()
    };
    assert_eq!(submit("new", json!(1.7)), "200");
    assert_eq!(submit("new", json!(2)), "200");
    assert_eq!(submit("new", json!(1.2345)), "400 invalid_field (score)");
    assert_eq!(world.rows("new", ""), "1 p2 2, 2 p1.7 1.7");
    world.board("whole", json!({"mode": "open", "decimals": 0}));
    assert_eq!(submit("whole", json!(1.7)), "400 invalid_field (score)");
    let with_subscore = json!({"player": "bo", "score": 1, "subscore": 0.5});
    assert_eq!(
        world.on_board("POST", "whole", "/scores", with_subscore).summary(),
        "400 invalid_field (subscore)"
    );
    let bounded = world.on_board("PUT", "whole", "", json!({"min": 0.5}));
    assert_eq!(bounded.summary(), "400 invalid_field (min)");
    assert_eq!(world.rows("whole", ""), "");
}

#[test]
fn save_and_list_returns_the_page_of_the_score() {
    let world = world_with_scores(open_settings());
    let request = Request::new("POST", "/v1/boards/points/scores:saveAndList?window=day&per_page=2");
    let page = world.send(&request.key(&world.public_key).body(r#"{"player":"di","score":15}"#)).json();
    assert_eq!(
        (&page["saved"], &page["rank"], &page["page"], &page["total"]),
        (&json!(true), &json!(3), &json!(2), &json!(4))
    );
    let submitted = |row: &Value| (row["player"].clone(), row["submitted"].clone());
    let rows: Vec<_> = page["rows"].as_array().expect("rows").iter().map(submitted).collect();
    assert_eq!(rows, [(json!("di"), json!(true)), (json!("cy"), Value::Null)]);
    let rejected = Request::new("POST", "/v1/boards/points/scores:saveAndList?around=bo");
    let rejected = world.send(&rejected.key(&world.public_key).body(r#"{"player":"ed","score":15}"#));
    assert_eq!(rejected.summary(), "400 invalid_field (window)");
    assert_eq!(world.page("points", "")["total"], 4);
}

#[test]
fn first_submission_decides_who_may_submit() {
    let world = World::new();
    let score = json!({"player": "bo", "score": 7});
    assert_eq!(world.score("played", score.clone()).summary(), "401 signature");
    let session = Session::open(&world, "bo");
    let signed = session.signed("POST", "/v1/boards/played/scores", &score.to_string());
    assert_eq!(world.send(&signed).status, 200);
    let mode = |table: &str| world.on_board("GET", table, "", Value::Null).json()["mode"].clone();
    assert_eq!(mode("played"), "session");
    assert_eq!(world.on_board("POST", "judged", "/scores", score.clone()).status, 200);
    assert_eq!(mode("judged"), "server");
    assert_eq!(world.score("judged", score.clone()).summary(), "403 scope");
    let signed = session.signed("POST", "/v1/boards/judged/scores", &score.to_string());
    assert_eq!(world.send(&signed).summary(), "403 scope");
    world.board("prize", json!({"competitive": true}));
    assert_eq!(mode("prize"), "server");
    assert_eq!(world.page("played", "")["rows"][0]["verified"], true);
}

#[test]
fn forged_replayed_and_altered_scores_never_reach_a_board() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let unlimited = "[quotas]\naddress_writes_per_second = 0\nplayer_writes_per_second = 0\n";
    std::fs::write(root.path().join("playmeter.toml"), unlimited).expect("a file");
    let world = World::on(root, &[]);
    let (path, honest) = ("/v1/boards/high/scores", r#"{"player":"bo","score":7}"#);
    let session = Session::open(&world, "bo");
    let other = Session::open(&world, "eve");
    let now_s = now_ms() / 1000;
    let used = session.signed_at(now_s, "honest-0001", "POST", path, honest);
    assert_eq!(world.send(&used).status, 200);
    let mut connection = world.connect();
    let mut forgeries = 0;
    for number in 0..100 {
        let better = format!(r#"{{"player":"bo","score":{}}}"#, 1_000 + number);
        let as_other = better.replace("bo", "eve");
        let nonce = format!("forged-{number:06}");
        let sign = |at_s: i64, body: &str| session.signed_at(at_s, &nonce, "POST", path, body);
        let unknown = Session { id: format!("{}x", session.id), ..session.clone() };
        let stolen = Session { id: session.id.clone(), ..other.clone() };
        for (forged, expected) in [
            // Without a signature, and with a used one.
            (Request::new("POST", path).key(&world.public_key).body(better.clone()), "401 signature"),
            (used.clone(), "401 signature"),
            // A body or path other than the signed one.
            (sign(now_s, honest).body(better.clone()), "401 signature"),
            (sign(now_s, &better).to("/v1/boards/other/scores"), "401 signature"),
            (
                session.signed_at(now_s, &nonce, "POST", "/v1/boards/low/scores", &better).to(path),
                "401 signature",
            ),
            // A wrong clock.
            (sign(now_s - 301 - number, &better), "401 signature"),
            (sign(now_s + 310 + number, &better), "401 signature"),
            // An unknown session, the key of another session, and the name of another player.
            (unknown.signed_at(now_s, &nonce, "POST", path, &better), "401 signature"),
            (stolen.signed_at(now_s, &nonce, "POST", path, &better), "401 signature"),
            (sign(now_s, &as_other), "403 scope (player)"),
        ] {
            let answer = connection.send(&forged).expect("an answer");
            let summary = answer.summary();
            assert!(summary.starts_with(expected), "{summary}: forgery {forgeries}");
            forgeries += 1;
        }
    }
    assert_eq!(forgeries, 1_000);
    assert_eq!(world.rows("high", ""), "1 bo 7");
    let boards = world.send(&Request::get("/v1/boards").key(&world.secret_key)).json();
    assert_eq!(boards["boards"].as_array().map(Vec::len), Some(1));
}

#[test]
fn score_that_fails_a_check_is_quarantined() {
    let world = World::new();
    let checks = json!({"min_play_s": 600, "points_per_s_max": 10, "level": "cave"});
    world.board("checked", json!({"checks": checks}));
    let session = Session::open(&world, "bo");
    for score in [5_000, 6_000] {
        let body = format!(r#"{{"player":"bo","name":"Bo","score":{score}}}"#);
        let saved = world.send(&session.signed("POST", "/v1/boards/checked/scores", &body)).json();
        assert_eq!((&saved["saved"], &saved["quarantined"]), (&json!(false), &json!(true)), "{saved}");
    }
    assert_eq!(world.rows("checked", ""), "");
    let own = world.page("checked", "player=bo");
    assert_eq!((&own["rows"][0]["score"], &own["rows"][0]["quarantined"]), (&json!(5_000), &json!(true)));
    let items = world.on_board("GET", "checked", "/quarantine", Value::Null).json()["items"].clone();
    let failed = items[0]["evidence"]["failed"].as_array().expect("checks").iter();
    let failed: Vec<_> = failed.map(|it| it["check"].as_str().expect("a check")).collect();
    assert_eq!(failed, ["min_play_s", "points_per_s_max", "level"]);
    let decide = |at: usize, decision: &str| {
        let id = items[at]["id"].as_str().expect("an id");
        world
            .on_board("POST", "checked", &format!("/quarantine/{id}"), json!({"decision": decision}))
            .summary()
    };
    assert_eq!((decide(1, "reject"), decide(0, "accept")), ("200".to_owned(), "200".to_owned()));
    assert_eq!(
        (decide(1, "accept"), decide(0, "maybe")),
        ("404 not_found".to_owned(), "400 invalid_field (decision)".to_owned())
    );
    assert_eq!(world.rows("checked", ""), "1 bo 5000");
    // Scores from servers are not checked.
    let saved = world.on_board("POST", "checked", "/scores", json!({"player": "al", "score": 9_999})).json();
    assert_eq!(saved["rank"], 1);
}

#[test]
fn banned_player_is_hidden_until_the_ban_is_lifted() {
    let mut world = world_with_scores(open_settings());
    let ban = |world: &World, method: &'static str| {
        let request = Request::new(method, "/v1/players/al/ban").key(&world.secret_key);
        world.send(&if method == "PUT" { request.body(r#"{"reason":"why not"}"#) } else { request }).summary()
    };
    assert_eq!(ban(&world, "DELETE"), "404 not_found");
    assert_eq!(ban(&world, "PUT"), "204");
    for query in ["", "window=24h"] {
        assert_eq!(world.rows("points", query), "1 bo 20, 2 cy 10");
    }
    assert_eq!(world.rows("points", "filter.car=red"), "1 cy 10");
    assert_eq!(world.score("points", json!({"player": "al", "score": 99})).summary(), "403 scope (player)");
    world.kill9();
    world.start();
    assert_eq!(world.rows("points", ""), "1 bo 20, 2 cy 10");
    assert_eq!(ban(&world, "DELETE"), "204");
    assert_eq!(world.rows("points", ""), "1 al 30, 2 bo 20, 3 cy 10");
}

#[test]
fn reset_closes_the_season_and_keeps_it_readable() {
    let world = world_with_scores(open_settings());
    let reset = world.on_board("POST", "points", "/reset", Value::Null);
    assert_eq!(reset.json(), json!({"table": "points", "season": 2}));
    assert_eq!(world.rows("points", "window=season"), "");
    world.score("points", json!({"player": "cy", "score": 5}));
    assert_eq!(world.rows("points", "window=season"), "1 cy 5");
    assert_eq!(world.rows("points", "season=1"), "1 al 30, 2 bo 20, 3 cy 10");
    assert_eq!(world.rows("points", ""), "1 al 30, 2 bo 20, 3 cy 10");
    assert_eq!(world.on_board("POST", "nothing", "/reset", Value::Null).summary(), "404 not_found");
}

#[test]
fn private_board_requires_its_code() {
    let world = World::new();
    let created = world.on_board("PUT", "friends", "", json!({"private": true, "mode": "open"})).json();
    let code = created["code"].as_str().expect("a code").to_owned();
    assert_eq!(code.len(), 12);
    let again = world.on_board("PUT", "friends", "", json!({"private": true, "title": "Friends"})).json();
    assert_eq!(again["code"], code.as_str(), "the board keeps its code");
    let seen = |path: &str| world.send(&Request::get(format!("/v1/boards{path}")).key(&world.public_key));
    assert_eq!(seen("").json()["boards"], json!([]));
    for path in ["/friends", "/friends/scores", "/friends/scores?code=guess"] {
        assert_eq!(seen(path).summary(), "404 not_found");
    }
    let submit = |query: &str| {
        let request =
            Request::new("POST", format!("/v1/boards/friends/scores{query}")).key(&world.public_key);
        world.send(&request.body(r#"{"player":"bo","score":1}"#)).summary()
    };
    assert_eq!(submit(""), "404 not_found");
    assert_eq!(submit(&format!("?code={code}")), "200");
    assert_eq!(world.rows("friends", &format!("code={code}")), "1 bo 1");
    assert_eq!(seen(&format!("/friends?code={code}")).json()["code"], Value::Null);
    world.board("friends", json!({"private": false}));
    assert_eq!(world.rows("friends", ""), "1 bo 1");
}

#[test]
fn invalid_board_setting_is_named() {
    let world = world_with_scores(open_settings());
    let summary = |table: &str, settings: Value| world.on_board("PUT", table, "", settings).summary();
    for (settings, field) in [
        (json!({"order": "up"}), "order"),
        (json!({"keep": "worst"}), "keep"),
        (json!({"windows": ["year"]}), "windows[0]"),
        (json!({"windows": []}), "windows"),
        (json!({"decimals": 7}), "decimals"),
        (json!({"min": "1"}), "min"),
        (json!({"checks": {"min_play": 1}}), "checks.min_play"),
        (json!({"filters": ["a", "b", "c", "d", "e"]}), "filters"),
        (json!({"private": ""}), "private"),
        (json!({"season": 7}), "season"),
        (json!({"players": 7}), "players"),
    ] {
        assert_eq!(summary("new", settings), format!("400 invalid_field ({field})"));
    }
    for (settings, field) in [(json!({"order": "asc"}), "order"), (json!({"keep": "all"}), "keep")] {
        assert_eq!(summary("points", settings), format!("409 conflict ({field})"));
    }
    assert_eq!(summary("a%20b", json!({})), "400 invalid_field (table)");
}

#[test]
fn retry_with_same_idempotency_key_counts_once() {
    let world = World::new();
    world.board("sum", json!({"mode": "open", "keep": "sum"}));
    let send = || {
        let request = Request::new("POST", "/v1/boards/sum/scores").key(&world.public_key);
        world.send(&request.header("Idempotency-Key", "one").body(r#"{"player":"bo","score":5}"#)).json()
    };
    assert_eq!(send(), send());
    assert_eq!(world.rows("sum", ""), "1 bo 5");
}

#[test]
fn stored_pages_of_a_public_key_do_not_evict_the_response_to_a_server() {
    let world = World::new();
    world.board("sum", json!({"mode": "open", "keep": "sum"}));
    let of_server = || {
        let request = Request::new("POST", "/v1/boards/sum/scores").key(&world.secret_key);
        world.send(&request.header("Idempotency-Key", "one").body(r#"{"player":"bo","score":100}"#)).json()
    };
    let first = of_server();
    let friends = ["a"; 7_500].join(",");
    let target = format!("/v1/boards/sum/scores:saveAndList?per_page=1&friends={friends}");
    let mut connection = world.connect();
    for number in 0..400 {
        let score = json!({"player": format!("player-{}", number % 8), "score": 1}).to_string();
        let request = Request::new("POST", &target).key(&world.public_key).body(score);
        let request = request.header("Idempotency-Key", &format!("public-{number}"));
        assert_eq!(connection.send(&request).expect("an answer").summary(), "200");
    }
    assert_eq!(of_server(), first);
    assert_eq!(world.rows("sum", "friends=bo"), "1 bo 100");
}

#[test]
fn repeated_submission_to_a_board_that_became_private_returns_no_page() {
    let world = World::new();
    world.board("race", json!({"mode": "open"}));
    let repeated = |code: &str| {
        let target = format!("/v1/boards/race/scores:saveAndList?code={code}");
        let request = Request::new("POST", target).key(&world.public_key);
        let request = request.header("Idempotency-Key", &format!("code {code}"));
        world.send(&request.body(r#"{"player":"bo","score":1}"#)).json()
    };
    let players = |page: &Value| {
        let rows = page["rows"].as_array().cloned();
        rows.map(|rows| rows.iter().map(|row| row["player"].to_string()).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(players(&repeated("guess")), Some(r#""bo""#.to_owned()));
    let code = world.on_board("PUT", "race", "", json!({"private": true})).json()["code"].clone();
    let code = code.as_str().expect("a code");
    let secret = json!({"player": "secret", "score": 99});
    assert_eq!(world.on_board("POST", "race", "/scores", secret).summary(), "200");
    let page = repeated("guess");
    assert_eq!((&page["best"], players(&page)), (&json!(1), None), "the decision alone");
    for _ in 0..2 {
        assert_eq!(players(&repeated(code)), Some(r#""secret" "bo""#.to_owned()));
    }
}
