//! Games with the Playtomic SDKs: their requests, byte for byte, and the answers they expect.

mod achievements;
mod levels;
mod scores;
mod v3;

use md5::{Digest, Md5};
use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::world::World;

/// The keys that are compiled into the game.
const KEY: &str = "7bf0867af8a64758";
const PRIVATE_KEY: &str = "0123456789abcdef";

/// A server with the keys of a Playtomic game.
fn world() -> World {
    let world = World::new();
    let keys = ["--key", KEY, "--private-key", PRIVATE_KEY, "--data-api", "true", "--json"];
    world.command(&[&["games", "playtomic", "demo"], &keys[..]].concat()).json();
    world
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |chunk: &[u8]| {
        let word =
            chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        (0..4).map(move |at| (word >> (18 - 6 * at)) & 63).enumerate()
    };
    bytes
        .chunks(3)
        .flat_map(|chunk| {
            let length = chunk.len();
            digits(chunk)
                .map(move |(at, digit)| if at > length { '=' } else { DIGITS[digit as usize].into() })
        })
        .collect()
}

fn md5(text: &str) -> String {
    Md5::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The request of the browser SDK: text/plain, nothing escaped, the keys of the section and the action last.
fn request(section: &str, action: &str, parameters: Value) -> Request {
    let mut fields = parameters.as_object().expect("parameters are an object").clone();
    fields.insert("section".into(), section.into());
    fields.insert("action".into(), action.into());
    fields.insert("publickey".into(), KEY.into());
    signed(&Value::Object(fields).to_string(), PRIVATE_KEY)
}

fn signed(data: &str, private_key: &str) -> Request {
    let hash = md5(&format!("{data}{private_key}"));
    form(&format!("data={}&hash={hash}", base64(data.as_bytes())))
}

fn form(body: &str) -> Request {
    let request = Request::new("POST", format!("/v1?publickey={KEY}")).body(body);
    request.header("Content-Type", "text/plain;charset=UTF-8").header("Origin", "http://games.example")
}

fn call(world: &World, section: &str, action: &str, parameters: Value) -> Value {
    let answer = world.send(&request(section, action, parameters));
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some("*")));
    answer.json()
}

/// The code of an answer, and whether it is a success.
fn code(answer: &Value) -> (bool, u64) {
    let code = answer["errorcode"].as_u64().expect("a code");
    assert!(answer["errormessage"].is_string(), "{answer}");
    (answer["success"].as_bool().expect("a success or not"), code)
}

/// Checks the answer to a tracker.
#[track_caller]
fn tracked(answer: &Answer) {
    assert_eq!((answer.status, answer.text().as_str()), (200, "1"));
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("content-type"), Some("text/javascript"));
}

fn count(world: &World, query: Value) -> Value {
    let answer = world.query(&query);
    answer.json()["series"][0]["total"].clone()
}

#[test]
fn tracker_game_is_read_from_host_path_or_parameter() {
    let world = world();
    let tail = "q=v/1&url=http%3A//www.games.example/arcade&swfid=940628&0.8467Z";
    tracked(&world.send(&Request::get(format!("/tracker/q.aspx?guid={KEY}&{tail}"))));
    tracked(&world.send(&Request::get(format!("/{KEY}/tracker/q.aspx?{tail}"))));
    tracked(&world.send(&Request::get(format!("/g{KEY}/tracker/q.aspx?{tail}"))));
    tracked(&world.send(&Request::get(format!("/{}/tracker/q.aspx?{tail}", world.public_key))));
    for host in [
        format!("g{KEY}.api.games.example"),
        format!("G{}.api.games.example:80", world.public_key).to_ascii_lowercase(),
    ] {
        tracked(&world.send(&Request::get(format!("/tracker/q.aspx?{tail}")).host(&host)));
    }
    // One SDK posts a form without content.
    tracked(&world.send(&Request::new("POST", format!("/{KEY}/tracker/q.aspx?{tail}")).body("x=x")));
    let views = json!({"metric": "views", "where": {"source": ["games.example"]}, "step": "all"});
    assert_eq!(count(&world, views), 7);
    let rejected = |target: &str| world.send(&Request::get(target)).summary();
    assert_eq!(rejected("/tracker/q.aspx?q=v/1"), "401 key (guid)");
    assert_eq!(rejected("/nobody/tracker/q.aspx?q=v/1"), "401 key (guid)");
    assert_eq!(rejected(&format!("/{KEY}/tracker/q.aspx?url=x")), "400 malformed (q)");
}

#[test]
fn every_tracker_event_is_accounted_for() {
    let world = world();
    let sent = [
        "v/1",
        "p/1~lc/Deaths/1~la/Time/1/41.5~lr/Score/1/900~t/y/1",
        "t/n/2~c/Opened/Menu~c//Menu~zz/1~h/Clicks/Screen%201/10/20",
        "f/Start/Clicked/1~pls/a1~plw/a1~plq/a1~plr/a1~plf/a1~la/Time/1/undefined~~c/Opened/",
    ];
    for events in sent {
        tracked(&world.send(&Request::get(format!("/{KEY}/tracker/q.aspx?q={events}&url=x&1Z"))));
    }
    tracked(&world.send(&Request::get(format!("/{KEY}/tracker/q.aspx?q=&url=x&1Z"))));
    let parts: usize = sent.iter().map(|events| events.split('~').count()).sum();
    let load = world.load();
    let totals = json!({"received": parts, "accepted": parts - 4, "duplicate": 0, "invalid": 4, "late": 0, "limited": 0});
    assert_eq!(load["totals"], totals);
    let reasons = json!({
        "event_name_empty": 1, "unknown_field": 1, "value_not_a_number": 1, "event_name_missing": 1,
    });
    assert_eq!(load["reasons"], reasons);
    let endpoints = load["endpoints"].as_array().expect("a list");
    let of_tracker =
        endpoints.iter().find(|endpoint| endpoint["endpoint"] == "playtomic").expect("it is named");
    assert_eq!(of_tracker["received"], parts);
    for (metric, expected) in [
        ("views", 1),
        ("plays", 1),
        ("Opened", 2),
        ("$level", 5),
        ("$level_metric", 3),
        ("$heat", 1),
        ("Start", 1),
    ] {
        assert_eq!(count(&world, json!({"metric": metric, "step": "all"})), expected, "{metric}");
    }
    let time = json!({"metric": "$level_metric", "measure": "sum", "where": {"level": ["1"]}, "step": "all"});
    assert_eq!(count(&world, time), 941.5);
}

#[test]
fn every_api_error_has_a_code() {
    let world = world();
    let code_of = |request: &Request| {
        let answer = world.send(request);
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some("*")));
        code(&answer.json())
    };
    let lookup = r#"{"section":"geoip","action":"lookup"}"#;
    assert_eq!(code_of(&signed(lookup, PRIVATE_KEY)), (true, 0));
    assert_eq!(code_of(&signed(lookup, PRIVATE_KEY).to("/v1?publickey=nobody")), (false, 2));
    assert_eq!(code_of(&signed(lookup, PRIVATE_KEY).to("/v1")), (false, 2));
    assert_eq!(code_of(&signed(lookup, "another key")), (false, 2));
    assert_eq!(code_of(&signed(lookup, "")), (false, 2));
    assert_eq!(code_of(&form("")), (false, 4));
    assert_eq!(code_of(&form("data=e30=&hash=1")), (false, 4));
    assert_eq!(code_of(&signed("[]", PRIVATE_KEY)), (false, 4));
    assert_eq!(code_of(&signed("{", PRIVATE_KEY)), (false, 4));
    for (section, action, parameters) in [
        ("geoip", "nothing", json!({})),
        ("nothing", "list", json!({})),
        ("data", "nothing", json!({})),
        ("geoip", "lookup", json!({"ip": "here"})),
        ("geoip", "lookup", json!({"address": "127.0.0.1"})),
        ("data", "views", json!({"year": 2026, "month": 13})),
        ("data", "custommetric", json!({})),
    ] {
        let answer = call(&world, section, action, parameters.clone());
        assert_eq!(code(&answer), (false, 4), "{section}.{action} {parameters}");
    }
    let unknown = call(&world, "geoip", "lookup", json!({"owner": 1}));
    assert!(unknown["errormessage"].as_str().is_some_and(|message| message.contains("`owner`")), "{unknown}");
    assert_eq!(world.send(&Request::get(format!("/v1?publickey={KEY}"))).summary(), "405 method");
    let preflight = world.send(&Request::new("OPTIONS", format!("/v1?publickey={KEY}")));
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (204, Some("*")));
}

#[test]
fn game_without_playtomic_keys_uses_the_derived_key() {
    let world = World::new();
    let games = world.command(&["games", "list", "--json"]).json();
    let private_key = games[0]["playtomic"]["private_key"].as_str().expect("a key").to_owned();
    let request = |private_key: &str| {
        let request = signed(r#"{"section":"geoip","action":"lookup"}"#, private_key);
        world.send(&request.to(format!("/v1?publickey={}", world.public_key))).json()
    };
    assert_eq!(code(&request(&private_key)), (true, 0));
    assert_eq!(code(&request(PRIVATE_KEY)), (false, 2));
    assert_eq!(world.command(&["games", "playtomic", "nobody"]).code, 1);
    assert_eq!(world.command(&["games", "playtomic", "demo", "--key", "a b"]).code, 1);
}

#[test]
fn address_without_a_country_is_unknown() {
    let world = world();
    let country = json!({"code": "N/A", "name": "UNKNOWN"});
    for parameters in [json!({}), json!({"ip": "10.0.0.1"})] {
        let answer = call(&world, "geoip", "lookup", parameters);
        assert_eq!(answer["country"], country);
        assert_eq!((&answer["code"], &answer["name"]), (&country["code"], &country["name"]));
    }
}

#[test]
fn newsletter_is_not_supported() {
    let answer = call(&world(), "newsletter", "subscribe", json!({"email": "bo@games.example"}));
    assert_eq!(code(&answer), (false, 600));
}

#[test]
fn data_api_returns_totals_only_when_enabled() {
    let world = world();
    let events = "v/1~v/2~p/1~t/y/1~t/n/2~t/n/3~c/Opened/Menu~lc/Deaths/1~lc/Deaths/1~lc/Deaths/2\
                  ~la/Time/1/10~la/Time/1/20~lr/Coins/1/7~lr/Coins/1/3~lr/Coins/1/7";
    tracked(&world.send(&Request::get(format!("/{KEY}/tracker/q.aspx?q={events}&url=x&1Z"))));
    let value = |action: &str, parameters: Value| {
        let answer = call(&world, "data", action, parameters);
        assert_eq!(code(&answer), (true, 0), "{answer}");
        answer["value"].clone()
    };
    assert_eq!(value("views", json!({"type": "views", "day": 0, "month": 0, "year": 0})), 2);
    assert_eq!(value("Plays", json!({})), 1);
    assert_eq!(value("playtime", json!({})), 120);
    assert_eq!(value("custommetric", json!({"metric": "Opened"})), 1);
    assert_eq!(value("views", json!({"day": 1, "month": 1, "year": 2020})), 0);
    let level = |metric: &str, level: &str| json!({"metric": metric, "level": level});
    assert_eq!(value("levelcountermetric", level("Deaths", "1")), 2);
    assert_eq!(value("LevelCounterMetric", level("Deaths", "3")), 0);
    let average = call(&world, "data", "levelaveragemetric", level("Time", "1"));
    let values = ["min", "max", "average", "total"].map(|field| average[field].clone());
    assert_eq!(values, [json!(10), json!(20), json!(15), json!(30)], "{average}");
    let ranged = json!([{"trackvalue": 3, "value": 1}, {"trackvalue": 7, "value": 2}]);
    assert_eq!(value("levelrangedmetric", level("Coins", "1")), ranged);
    assert_eq!(code(&call(&world, "data", "levelrangedmetric", json!({"metric": "Coins"}))), (false, 4));
    world.command(&["games", "playtomic", "demo", "--data-api", "false", "--json"]).json();
    assert_eq!(code(&call(&world, "data", "views", json!({}))), (false, 500));
}

/// Writes with the secret key.
#[track_caller]
fn put(world: &World, target: &str, body: Value) {
    let answer = world.send(&Request::new("PUT", target).key(&world.secret_key).body(body.to_string()));
    assert!(answer.status < 300, "{}", answer.text());
}

#[test]
fn game_variables_are_returned_by_name() {
    let world = world();
    put(&world, "/v1/vars/testvar1", json!({"value": "testvalue1"}));
    put(&world, "/v1/vars/limit", json!({"value": 7}));
    let all = call(&world, "gamevars", "load", json!({}));
    assert_eq!(code(&all), (true, 0));
    assert_eq!(all["gamevars"], json!({"testvar1": {"value": "testvalue1"}, "limit": {"value": 7}}));
    assert_eq!((&all["testvar1"], &all["limit"]), (&json!("testvalue1"), &json!(7)));
    let single = call(&world, "gamevars", "single", json!({"name": "limit"}));
    assert_eq!(single["gamevars"], json!({"limit": {"value": 7}}));
    assert_eq!((code(&single), &single["testvar1"]), ((true, 0), &Value::Null));
    let none = call(&world, "gamevars", "single", json!({"name": "nothing"}));
    assert_eq!((code(&none), &none["gamevars"]), ((true, 0), &json!({})));
    assert_eq!(code(&call(&world, "gamevars", "single", json!({}))), (false, 4));
}
