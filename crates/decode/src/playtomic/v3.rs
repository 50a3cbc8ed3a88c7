//! `POST /v3/api.aspx` of SDK 2: a form whose `data` is base64 of fields joined by `&`.
//!
//! Section and action are not sent by name. Each is the MD5 of the other fields, sorted and joined, and of a key that is
//! itself an MD5 of the name and the game's private key. So a request is read by trying the known names, and only one with
//! the right private key can be read. The signature repeats this with the address of the request, which a proxy changes;
//! it is not checked.

use md5::{Digest, Md5};
use serde_json::{Map, Value};

use super::escape::{raw_parameter, unescape};
use super::form::{FormError, hash_input, to_hex};

/// Sections with their actions.
const CALLS: [(&str, &[&str]); 6] = [
    ("gamevars", &["load", "loadsingle"]),
    ("geoip", &["lookup"]),
    (
        "leaderboards",
        &[
            "list",
            "listfb",
            "save",
            "savefb",
            "saveandlist",
            "saveandlistfb",
            "createprivateleaderboard",
            "loadprivateleaderboard",
        ],
    ),
    ("playerlevels", &["save", "load", "list", "rate"]),
    (
        "data",
        &[
            "views",
            "plays",
            "playtime",
            "custommetric",
            "levelcountermetric",
            "levelrangedmetric",
            "levelaveragemetric",
        ],
    ),
    ("parse", &["save", "delete", "load", "find"]),
];
/// Custom fields of one request.
const CUSTOM_MAX: usize = 32;

/// The fields of a request, with its section and action still unread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct V3Form {
    /// The fields as they were sent, without section, action and signature.
    items: Vec<String>,
    section: String,
    action: String,
}

/// A request as the API of SDK 3 names it.
#[derive(Clone, Debug, PartialEq)]
pub struct V3Call {
    /// The section, such as `leaderboards`.
    pub section: &'static str,
    /// The action, such as `save`.
    pub action: &'static str,
    /// The parameters.
    pub parameters: Map<String, Value>,
}

/// Reads a form.
pub fn parse_v3_form(body: &[u8]) -> Result<V3Form, FormError> {
    let body = str::from_utf8(body).map_err(|_| FormError::NotText)?;
    let data = raw_parameter(body, "data").filter(|data| !data.is_empty());
    let data = unescape(data.ok_or(FormError::Missing("data"))?);
    let bytes = crate::base64::decode(&data).ok_or(FormError::Data)?;
    let text = super::form::utf8(&bytes).ok_or(FormError::Data)?;
    let mut form = V3Form { items: Vec::new(), section: String::new(), action: String::new() };
    for item in text.split('&') {
        match item.split_once('=') {
            Some(("section", hash)) => form.section = hash.to_owned(),
            Some(("action", hash)) => form.action = hash.to_owned(),
            Some(("signature", _)) => {}
            _ => form.items.push(item.to_owned()),
        }
    }
    Ok(form)
}

impl V3Form {
    /// Returns the call, or `None` if it was made with another private key or is unknown.
    pub fn call(&self, private_key: &str) -> Option<V3Call> {
        let mut items = self.items.clone();
        let sections = CALLS.iter().map(|(section, _)| (section, format!("{section}-{private_key}")));
        let keys: Vec<String> = sections.map(|(_, key)| key).collect();
        let section = find(&mut items, &keys, &self.section)?;
        let (section, actions) = CALLS[section];
        items.push(format!("section={}", self.section));
        let keys = actions.iter().map(|action| format!("{section}-{action}-{private_key}"));
        let action = find(&mut items, &keys.collect::<Vec<String>>(), &self.action)?;
        Some(self.translate(section, actions[action]))
    }

    fn translate(&self, section: &'static str, action: &'static str) -> V3Call {
        let mut parameters = Parameters { form: self, map: Map::new() };
        // Facebook's variants differ in the parameters only.
        let action = action.strip_suffix("fb").unwrap_or(action);
        let action = if action == "loadsingle" { "single" } else { action };
        match (section, action) {
            ("leaderboards", "list") => parameters.list_scores(),
            ("leaderboards", "save" | "saveandlist") => parameters.save_score(action == "saveandlist"),
            ("playerlevels", "save") => parameters.save_level(),
            ("playerlevels", "list") => parameters.list_levels(),
            ("data", _) => {
                ["metric", "level"].into_iter().for_each(|name| parameters.text(name, name));
                ["day", "month", "year"].into_iter().for_each(|name| parameters.number(name));
            }
            _ => ["name", "levelid", "rating"].into_iter().for_each(|name| parameters.text(name, name)),
        }
        V3Call { section, action, parameters: parameters.map }
    }

    fn field(&self, name: &str) -> Option<String> {
        let mut pairs = self.items.iter().filter_map(|item| item.split_once('='));
        let value = pairs.find(|(key, _)| *key == name).map(|(_, value)| unescape(value).into_owned());
        value.filter(|value| !value.is_empty())
    }
}

/// Returns which of the keys was hashed with these fields. Sorts the fields.
fn find(items: &mut [String], keys: &[String], hash: &str) -> Option<usize> {
    items.sort_unstable();
    let text = items.join("&");
    let start = Md5::new().chain_update(&text);
    keys.iter().position(|key| {
        let key = to_hex(&Md5::digest(key));
        if to_hex(&start.clone().chain_update(&key).finalize()) == hash {
            return true;
        }
        // The MD5 of the SDKs for browsers and Flash differs for text with other characters.
        !text.is_ascii() && to_hex(&Md5::digest(hash_input(&text, &key))) == hash
    })
}

/// Parameters under construction.
struct Parameters<'a> {
    form: &'a V3Form,
    map: Map<String, Value>,
}

impl Parameters<'_> {
    fn text(&mut self, name: &str, to: &str) {
        self.map.extend(self.form.field(name).map(|text| (to.to_owned(), text.into())));
    }

    /// Copies a whole number; other text is copied as it is, for the error.
    fn number(&mut self, name: &str) {
        let number = |text: String| text.parse::<i64>().map_or_else(|_| text.into(), Value::from);
        self.map.extend(self.form.field(name).map(|text| (name.to_owned(), number(text))));
    }

    fn flag(&mut self, name: &str) {
        self.map.extend(self.form.field(name).map(|text| (name.to_owned(), (text == "y").into())));
    }

    /// Copies custom fields: `ckey0`, `cdata0`, `ckey1`, ...
    fn custom(&mut self, prefix: &str, to: &str) {
        let pair = |number: usize| {
            let key = self.form.field(&format!("{prefix}key{number}"))?;
            Some((key, self.form.field(&format!("{prefix}data{number}"))?.into()))
        };
        let pairs: Map<String, Value> = (0..CUSTOM_MAX).map_while(pair).collect();
        self.map.insert(to.to_owned(), pairs.into());
    }

    fn friends(&mut self) {
        let list = self.form.field("friendslist").unwrap_or_default();
        let ids = list.split(',').filter(|id| !id.is_empty()).map(Value::from);
        self.map.insert("friendslist".to_owned(), ids.collect());
    }

    fn list_scores(&mut self) {
        ["table", "mode"].into_iter().for_each(|name| self.text(name, name));
        ["page", "perpage"].into_iter().for_each(|name| self.number(name));
        self.flag("highest");
        self.custom("c", "filters");
        self.friends();
        if self.form.field("url").is_some_and(|url| url != "global") {
            self.text("url", "source");
        }
    }

    fn save_score(&mut self, with_list: bool) {
        for (name, to) in [
            ("table", "table"),
            ("name", "playername"),
            ("fbuserid", "playerid"),
            ("points", "points"),
            ("url", "source"),
        ] {
            self.text(name, to);
        }
        ["allowduplicates", "highest"].into_iter().for_each(|name| self.flag(name));
        self.custom("c", "fields");
        if with_list {
            self.text("mode", "mode");
            self.number("perpage");
            self.flag("global");
            self.custom("l", "filters");
            self.friends();
        }
    }

    fn save_level(&mut self) {
        for (name, to) in [
            ("name", "name"),
            ("data", "data"),
            ("playerid", "playerid"),
            ("playername", "playername"),
            ("playersource", "source"),
        ] {
            self.text(name, to);
        }
        self.custom("c", "fields");
    }

    fn list_levels(&mut self) {
        ["mode", "datemin", "datemax"].into_iter().for_each(|name| self.text(name, name));
        ["page", "perpage"].into_iter().for_each(|name| self.number(name));
        self.flag("data");
        self.custom("c", "filters");
    }
}
