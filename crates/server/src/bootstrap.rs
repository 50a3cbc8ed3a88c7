//! `bootstrap.json`: the server's address and the keys of the first start, for people and scripts. Only its owner can
//! read it.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use pipeline::catalog::{Catalog, InitialKeys, read_private, replace_private};
use pipeline::time::now_s;

const NAME: &str = "bootstrap.json";

/// The URLs of a server.
pub struct Urls {
    /// For programs on this machine.
    pub local: String,
    /// For browsers and games.
    pub public: String,
}

/// Writes the file after the first start.
pub fn write(folder: &Path, made: &InitialKeys, urls: &Urls) -> anyhow::Result<()> {
    let content = json!({
        "url": urls.local,
        "sign_in_url": sign_in_url(&urls.public, &made.sign_in_token),
        "game": made.game.id,
        "public_key": made.game.public_key,
        "secret_key": made.secret_key,
    });
    save(folder, &content)
}

/// Updates the URLs. A file that was deleted is not created again.
pub fn update_urls(folder: &Path, urls: &Urls) -> anyhow::Result<()> {
    let Some(mut content) = read(folder)? else { return Ok(()) };
    if let Some((_, token)) = content["sign_in_url"].as_str().and_then(|old| old.split_once("token=")) {
        content["sign_in_url"] = sign_in_url(&urls.public, token).into();
    }
    content["url"] = urls.local.as_str().into();
    save(folder, &content)
}

/// Removes the keys of a deleted game.
pub(crate) fn remove_game(folder: &Path, game: &str) -> anyhow::Result<()> {
    let Some(mut content) = read(folder)? else { return Ok(()) };
    if content["game"] != game {
        return Ok(());
    }
    if let Some(fields) = content.as_object_mut() {
        ["game", "public_key", "secret_key"].iter().for_each(|field| drop(fields.remove(*field)));
    }
    save(folder, &content)
}

/// Returns the content of the file, or `None` if there is no file.
pub fn read(folder: &Path) -> anyhow::Result<Option<Value>> {
    let path = folder.join(NAME);
    let Some(text) = read_private(&path)? else { return Ok(None) };
    let content = serde_json::from_slice(&text);
    Ok(Some(content.with_context(|| {
        format!("{} is not JSON: move it to another place and start again", path.display())
    })?))
}

/// Creates a sign-in link that works once and for 15 minutes, and returns it. Without the file, which has the address of
/// the server, it is a path.
pub fn create_sign_in_link(folder: &Path, catalog: &Catalog, sign_out: bool) -> anyhow::Result<String> {
    let token = catalog.create_sign_in_link(now_s(), sign_out)?;
    let Some(mut content) = read(folder)? else { return Ok(sign_in_url("", &token)) };
    let old = content["sign_in_url"].as_str().and_then(|link| link.split_once("/sign-in?token="));
    let url = old.map(|(url, _)| url).or(content["url"].as_str()).unwrap_or_default();
    let link = sign_in_url(url, &token);
    content["sign_in_url"] = link.as_str().into();
    save(folder, &content)?;
    Ok(link)
}

/// Creates a sign-in link at a start, if the file is there to receive it.
pub(crate) fn renew_sign_in_link(folder: &Path, catalog: &Catalog) -> anyhow::Result<()> {
    if read(folder)?.is_some() {
        create_sign_in_link(folder, catalog, false)?;
    }
    Ok(())
}

fn save(folder: &Path, content: &Value) -> anyhow::Result<()> {
    let text = serde_json::to_vec_pretty(content).context("encoding bootstrap.json")?;
    replace_private(folder, NAME, &text)
}

fn sign_in_url(url: &str, token: &str) -> String {
    format!("{url}/sign-in?token={token}")
}

/// Returns the address as a URL that works on this machine.
pub(crate) fn url(scheme: &str, address: SocketAddr) -> String {
    let mut address = address;
    if address.ip().is_unspecified() {
        let local =
            if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
        address.set_ip(local);
    }
    format!("{scheme}://{address}")
}
