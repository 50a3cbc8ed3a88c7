//! `bootstrap.json`: the server's address and the keys of the first start, for people and scripts. Only its owner can
//! read it.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use pipeline::catalog::{InitialKeys, read_private, replace_private};

const NAME: &str = "bootstrap.json";

/// Writes the file after the first start.
pub fn write(folder: &Path, made: &InitialKeys, address: SocketAddr) -> anyhow::Result<()> {
    let url = url(address);
    let content = json!({
        "url": url,
        "sign_in_url": sign_in_url(&url, &made.sign_in_token),
        "game": made.game.id,
        "public_key": made.game.public_key,
        "secret_key": made.secret_key,
    });
    save(folder, &content)
}

/// Updates the address. A file that was deleted is not created again.
pub fn update_url(folder: &Path, address: SocketAddr) -> anyhow::Result<()> {
    let Some(mut content) = read(folder)? else { return Ok(()) };
    let url = url(address);
    if let Some(token) = content["sign_in_url"].as_str().and_then(|old| old.split_once("token=")) {
        content["sign_in_url"] = sign_in_url(&url, token.1).into();
    }
    content["url"] = url.into();
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

/// Replaces the owner's sign-in link and returns it, or `None` if there is no file.
pub fn set_sign_in_token(folder: &Path, token: &str) -> anyhow::Result<Option<String>> {
    let Some(mut content) = read(folder)? else { return Ok(None) };
    let url = content["url"].as_str().unwrap_or_default().to_owned();
    let link = sign_in_url(&url, token);
    content["sign_in_url"] = link.as_str().into();
    save(folder, &content)?;
    Ok(Some(link))
}

fn save(folder: &Path, content: &Value) -> anyhow::Result<()> {
    let text = serde_json::to_vec_pretty(content).context("encoding bootstrap.json")?;
    replace_private(folder, NAME, &text)
}

fn sign_in_url(url: &str, token: &str) -> String {
    format!("{url}/sign-in?token={token}")
}

/// Returns the address as a URL that works on this machine.
fn url(address: SocketAddr) -> String {
    let mut address = address;
    if address.ip().is_unspecified() {
        let local =
            if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
        address.set_ip(local);
    }
    format!("http://{address}")
}
