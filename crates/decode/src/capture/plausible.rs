//! Plausible's events API: one event, with the short names of its tracker or the long ones of its documentation.
//!
//! Source: <https://plausible.io/docs/events-api>, and the requests of `plausible-tracker` and
//! `@plausible-analytics/tracker`.

use serde_json::{Map, Value};

use super::{EventBuilder, TranslateError, TranslatedBody, parse_json, strip_dollar, translate_events};

/// Translates an event. `visitor` returns the id of the sender as a visitor of a site.
pub fn translate(body: &[u8], visitor: impl Fn(&str) -> String) -> Result<TranslatedBody, TranslateError> {
    let body = parse_json(body)?;
    let Value::Object(event) = &body else { return Err(TranslateError::Shape("the body must be an event")) };
    let domains = text(event, "d", "domain");
    // A page may name several domains; its events count for the first.
    let domain = domains.split(',').next().unwrap_or_default().trim().to_owned();
    let player = visitor(&domain);
    let key = (!domain.is_empty()).then_some(domain);
    translate_events(std::slice::from_ref(&body), None, key, |raw| translate_event(raw, &player))
}

fn translate_event(raw: &Map<String, Value>, player: &str) -> EventBuilder {
    let name = match text(raw, "n", "name") {
        "pageview" => "$view",
        "" => "",
        name => strip_dollar(name),
    };
    let mut event = EventBuilder::default();
    event.put("event", (!name.is_empty()).then(|| name.into()));
    event.put("player", Some(player.into()));
    event.add_props(field(raw, "p", "props").or_else(|| field(raw, "m", "meta")));
    event.put_page(text(raw, "u", "url"), text(raw, "r", "referrer"));
    if name == "engagement" {
        let seconds = raw.get("e").and_then(Value::as_f64).map(|milliseconds| milliseconds / 1000.0);
        event.put("value", seconds.map(Value::from));
        event.props.extend(raw.get("sd").map(|depth| ("scroll_depth".to_owned(), depth.clone())));
    }
    if let Some(revenue) = field(raw, "$", "revenue") {
        put_revenue(&mut event, revenue);
    }
    event
}

/// Sets the amount as the value. It may be a number or text, and all of it may be JSON in a text.
fn put_revenue(event: &mut EventBuilder, revenue: &Value) {
    let parsed = revenue.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let revenue = parsed.as_ref().unwrap_or(revenue);
    let amount = revenue.get("amount");
    let amount = amount.and_then(|amount| amount.as_f64().or_else(|| amount.as_str()?.trim().parse().ok()));
    event.put("value", amount.map(Value::from));
    let currency = revenue.get("currency").filter(|currency| currency.is_string());
    event.props.extend(currency.map(|currency| ("currency".to_owned(), currency.clone())));
}

fn field<'a>(raw: &'a Map<String, Value>, short: &str, long: &str) -> Option<&'a Value> {
    raw.get(short).or_else(|| raw.get(long)).filter(|value| !value.is_null())
}

fn text<'a>(raw: &'a Map<String, Value>, short: &str, long: &str) -> &'a str {
    field(raw, short, long).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(body: &str, expected: Expect) {
        let translated = translate(body.as_bytes(), |site| format!("visitor of {site}"));
        let translated = translated.expect("the body can be translated");
        expected.assert_eq(&format!("{:?} {}", translated.key, String::from_utf8_lossy(&translated.body)));
    }

    #[test]
    fn page_view_has_its_page_and_source() {
        check(
            r#"{"n":"pageview","u":"https://www.game.example/play?token=7#top","d":"game.example","r":"https://www.search.example/?q=x","w":1200,"h":0}"#,
            expect![[
                r#"Some("game.example") {"events":[{"event":"$view","player":"visitor of game.example","props":{"url":"https://www.game.example/play"},"source":"search.example"}]}"#
            ]],
        );
        check(
            r#"{"name":"pageview","url":"https://game.example/?utm_source=letter","domain":"game.example, all.example","referrer":"https://game.example/"}"#,
            expect![[
                r#"Some("game.example") {"events":[{"event":"$view","player":"visitor of game.example","props":{"url":"https://game.example/"},"source":"letter"}]}"#
            ]],
        );
    }

    #[test]
    fn props_and_revenue_are_read_from_objects_or_text() {
        check(
            r#"{"n":"Buy","u":"https://game.example/","d":"game.example","p":"{\"plan\":\"pro\"}","$":{"currency":"EUR","amount":"4.5"}}"#,
            expect![[
                r#"Some("game.example") {"events":[{"event":"Buy","player":"visitor of game.example","props":{"currency":"EUR","plan":"pro","url":"https://game.example/"},"value":4.5}]}"#
            ]],
        );
        check(
            r#"{"n":"engagement","u":"https://game.example/","d":"game.example","p":{"plan":"pro"},"e":2500,"sd":80}"#,
            expect![[
                r#"Some("game.example") {"events":[{"event":"engagement","player":"visitor of game.example","props":{"plan":"pro","scroll_depth":80,"url":"https://game.example/"},"value":2.5}]}"#
            ]],
        );
    }

    #[test]
    fn event_without_name_or_domain_is_left_without_them() {
        check("{}", expect![[r#"None {"events":[{"player":"visitor of "}]}"#]]);
        assert!(translate(b"[]", str::to_owned).is_err() && translate(b"{", str::to_owned).is_err());
    }
}
