//! SDK 2: the requests of its API, with section and action as digests, and its events about players.

use serde_json::{Value, json};

use super::{KEY, PRIVATE_KEY, base64, count, md5, put, tracked, world};
use crate::client::Request;
use crate::world::World;

/// The request of the browser SDK.
fn request(section: &str, action: &str, fields: &[(&str, &str)], private_key: &str) -> Request {
    let mut items = vec!["nonce=0123".to_owned(), "timestamp=1700000000".to_owned()];
    items.extend(fields.iter().map(|(name, value)| format!("{name}={}", escape(value))));
    for (name, key) in [
        ("section", md5(&format!("{section}-{private_key}"))),
        ("action", md5(&format!("{section}-{action}-{private_key}"))),
        ("signature", "anything".to_owned()),
    ] {
        items.sort_unstable();
        items.push(format!("{name}={}", md5(&format!("{}{key}", items.join("&")))));
    }
    let data = escape(&base64(items.join("&").as_bytes()));
    let request = Request::new("POST", "/v3/api.aspx?swfid=940628&js=y&r=0.5Z")
        .host(&format!("g{KEY}.api.games.example"));
    request.header("Content-Type", "text/plain;charset=UTF-8").body(format!("data={data}"))
}

fn escape(text: &str) -> String {
    let escaped = |char: char| match char {
        '%' | ';' | '?' | '/' | ':' | '#' | '&' | '=' | '+' | '$' | ',' | ' ' | '<' | '>' | '~' => {
            format!("%{:02X}", char as u32)
        }
        char => char.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// Returns the status, the code and the data of a reply.
fn call(world: &World, section: &str, action: &str, fields: &[(&str, &str)]) -> (u64, u64, Value) {
    reply(world, &request(section, action, fields, PRIVATE_KEY))
}

fn reply(world: &World, request: &Request) -> (u64, u64, Value) {
    let answer = world.send(request);
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some("*")));
    let reply = answer.json();
    let number = |name: &str| reply[name].as_u64().expect("a number");
    (number("Status"), number("ErrorCode"), reply["Data"].clone())
}

#[test]
fn variables_country_and_totals_have_the_names_of_sdk_2() {
    let world = world();
    put(&world, "/v1/vars/limit", json!({"value": 7}));
    assert_eq!(call(&world, "gamevars", "load", &[]), (1, 0, json!({"limit": 7})));
    assert_eq!(call(&world, "gamevars", "loadsingle", &[("name", "limit")]), (1, 0, json!({"limit": 7})));
    assert_eq!(call(&world, "geoip", "lookup", &[]), (1, 0, json!({"Code": "N/A", "Name": "UNKNOWN"})));
    let none = [("type", "views"), ("day", "0"), ("month", "0"), ("year", "0")];
    assert_eq!(call(&world, "data", "views", &none), (1, 0, json!({"Value": 0})));
    assert_eq!(call(&world, "parse", "find", &[("classname", "x")]).0, 0);
}

#[test]
fn scores_are_saved_and_listed() {
    let world = world();
    let save = |name: &str, points: &str, duplicates: &str| {
        let (status, code, _) = call(
            &world,
            "leaderboards",
            "save",
            &[
                ("table", "High Scores"),
                ("name", name),
                ("points", points),
                ("allowduplicates", duplicates),
                ("highest", "y"),
                ("auth", "0"),
                ("url", "http://www.games.example/arcade"),
                ("fbuserid", ""),
                ("fb", "n"),
                ("ckey0", "car"),
                ("cdata0", "red 50%"),
                ("customfields", "1"),
            ],
        );
        (status, code)
    };
    assert_eq!((save("Zoë ☃", "10", "n"), save("bo", "30", "n")), ((1, 0), (1, 0)));
    assert_eq!((save("bo", "20", "n"), save("bo", "20", "y")), ((1, 209), (1, 0)));
    let (_, _, data) = call(
        &world,
        "leaderboards",
        "list",
        &[
            ("table", "High Scores"),
            ("highest", "y"),
            ("facebook", "n"),
            ("mode", "alltime"),
            ("page", "1"),
            ("perpage", "20"),
            ("url", "global"),
            ("filters", "1"),
            ("ckey0", "car"),
            ("cdata0", "red 50%"),
        ],
    );
    let scores = data["Scores"].as_array().expect("a list");
    let rows: Vec<_> = scores.iter().map(|row| (row["Name"].clone(), row["Points"].clone())).collect();
    assert_eq!(rows, [(json!("bo"), json!(30)), (json!("bo"), json!(20)), (json!("Zoë ☃"), json!(10))]);
    assert_eq!((&data["NumScores"], &scores[0]["CustomData"]), (&json!(3), &json!({"car": "red 50%25"})));
    assert_eq!((&scores[0]["Website"], &scores[0]["RDate"]), (&json!("games.example"), &json!("just now")));
    let (status, _, data) = call(
        &world,
        "leaderboards",
        "saveandlist",
        &[
            ("table", "High Scores"),
            ("name", "cy"),
            ("points", "25"),
            ("highest", "y"),
            ("global", "y"),
            ("mode", "alltime"),
            ("perpage", "2"),
        ],
    );
    let marks: Vec<&Value> =
        data["Scores"].as_array().expect("a list").iter().map(|row| &row["SubmittedOrBest"]).collect();
    assert_eq!((status, marks), (1, vec![&json!("false"), &json!("true")]));
    let failed = call(&world, "leaderboards", "list", &[("mode", "best"), ("table", "x")]);
    assert_eq!(failed, (0, 4, json!({"Scores": [], "NumScores": 0})));
}

#[test]
fn levels_are_saved_loaded_listed_and_rated() {
    let world = world();
    let level = [
        ("nothumb", "true"),
        ("name", "cave"),
        ("playername", "bo"),
        ("playerid", "7"),
        ("data", "a=b&c"),
        ("ckey0", "car"),
        ("cdata0", "red"),
        ("customfields", "1"),
    ];
    let (status, code, saved) = call(&world, "playerlevels", "save", &level);
    assert_eq!((status, code), (1, 0), "{saved}");
    let id = saved["LevelId"].as_str().expect("an id").to_owned();
    let (_, _, loaded) = call(&world, "playerlevels", "load", &[("levelid", &id)]);
    assert_eq!(
        (&loaded["Name"], &loaded["Data"], &loaded["PlayerId"]),
        (&json!("cave"), &json!("a=b&c"), &json!("7"))
    );
    assert_eq!(call(&world, "playerlevels", "rate", &[("levelid", &id), ("rating", "9")]).0, 1);
    assert_eq!(call(&world, "playerlevels", "rate", &[("levelid", &id), ("rating", "70")]).1, 401);
    let list = [
        ("mode", "newest"),
        ("page", "1"),
        ("perpage", "20"),
        ("data", "n"),
        ("thumbs", "n"),
        ("filters", "0"),
    ];
    let (_, _, page) = call(&world, "playerlevels", "list", &list);
    assert_eq!((&page["NumLevels"], &page["Levels"][0]["LevelId"]), (&json!(1), &json!(id)));
    assert_eq!(page["Levels"][0]["Data"], Value::Null);
}

#[test]
fn request_with_another_key_or_of_another_game_is_rejected() {
    let world = world();
    let lookup = |private_key: &str| request("geoip", "lookup", &[], private_key);
    assert_eq!(reply(&world, &lookup(PRIVATE_KEY)).1, 0);
    assert_eq!(reply(&world, &lookup("another")), (0, 2, json!({})));
    assert_eq!(reply(&world, &lookup(PRIVATE_KEY).host("games.example")), (0, 2, json!({})));
    assert_eq!(
        reply(&world, &lookup(PRIVATE_KEY).to(format!("/{KEY}/v3/api.aspx")).host("games.example")).1,
        0
    );
    for body in ["", "data=", "data=!", "data=AAAA", "x"] {
        assert_eq!(reply(&world, &lookup(PRIVATE_KEY).body(body)).0, 0, "{body}");
    }
    assert_eq!(reply(&world, &lookup(PRIVATE_KEY).body("x".repeat(3 << 20))).1, 4);
    let preflight = world.send(&Request::new("OPTIONS", "/v3/api.aspx"));
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (204, Some("*")));
}

#[test]
fn event_about_a_player_is_counted() {
    let world = world();
    let post = |event: Value| {
        let data = escape(&base64(event.to_string().as_bytes()));
        world.send(
            &Request::new("POST", format!("/{KEY}/tracker/p.aspx?swfid=1&js=y&0.5Z"))
                .body(format!("data={data}")),
        )
    };
    let event = |more: Value| {
        let mut event = json!({
            "params": {"total": 4.5}, "source": "games.example", "session": "s1", "time": 60, "eventnum": 1,
            "location": "menu", "api": "html5", "apiversion": "2.0", "views": "3",
        });
        event.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        event
    };
    tracked(&post(event(json!({}))));
    tracked(&post(event(json!({"transaction": true}))));
    for (metric, measure, expected) in
        [("pevent", "count", json!(1)), ("transaction", "sum", json!(4.5)), ("players", "count", json!(1))]
    {
        assert_eq!(
            count(&world, json!({"metric": metric, "measure": measure, "step": "all"})),
            expected,
            "{metric}"
        );
    }
    assert_eq!(post(json!([])).summary(), "400 malformed (data)");
    let unknown = world.send(&Request::new("POST", "/tracker/p.aspx").body("data=e30="));
    assert_eq!(unknown.summary(), "401 key (guid)");
}
