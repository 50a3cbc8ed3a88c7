//! The websites of a game: the domains and website ids by which trackers of web analytics name it.

use std::net::IpAddr;
use std::sync::Arc;

use super::error::invalid;
use super::{Catalog, CatalogError, Game, key_format};

/// The maximum length of a site in bytes: that of a domain.
const SITE_BYTES_MAX: usize = 253;
/// The sites of a game.
const SITES_MAX: usize = 100;

/// What identifies a visitor of a site for a day.
pub struct VisitorKey<'a> {
    /// Days since 1970.
    pub day: u64,
    /// The client's address, if known.
    pub address: Option<IpAddr>,
    /// The client's user agent.
    pub user_agent: &'a str,
}

impl Catalog {
    /// Returns the game with this site, or with this public key. Case is ignored in sites.
    pub fn site_game(&self, site: &str) -> Option<Arc<Game>> {
        let current = self.current.load();
        current.sites.get(&site.to_ascii_lowercase()).or_else(|| current.public.get(site)).cloned()
    }

    /// Returns the id of a visitor of a site. It says nothing about the visitor without the installation's secret.
    pub fn visitor_id(&self, site: &str, visitor: &VisitorKey<'_>) -> String {
        let VisitorKey { day, address, user_agent } = visitor;
        let address = address.map_or_else(String::new, |address| address.to_string());
        let text = format!("{} visitor {day} {site} {address} {user_agent}", self.id_secret());
        key_format::sha256_hex(&text)[..32].to_owned()
    }

    /// Adds sites to a game and removes others.
    pub fn set_sites(&self, id: &str, add: &[String], remove: &[String]) -> Result<Game, CatalogError> {
        let add: Vec<String> = add.iter().map(|site| site.to_ascii_lowercase()).collect();
        for site in &add {
            check(site)?;
        }
        self.update(|file| {
            let is_used =
                |site: &String| file.games.iter().any(|game| game.id != id && game.sites.contains(site));
            if let Some(site) = add.iter().find(|site| is_used(site)) {
                return Err(invalid("add", format!("`{site}` is used by another game")));
            }
            let game = file.game_mut(id)?;
            game.sites.retain(|site| !remove.iter().any(|removed| removed.eq_ignore_ascii_case(site)));
            game.sites.extend(add);
            game.sites.sort_unstable();
            game.sites.dedup();
            if game.sites.len() > SITES_MAX {
                return Err(invalid("add", format!("a game can have at most {SITES_MAX} sites")));
            }
            Ok(game.clone())
        })
    }
}

fn check(site: &str) -> Result<(), CatalogError> {
    let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b',';
    if (1..=SITE_BYTES_MAX).contains(&site.len()) && site.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(invalid("add", format!("must be 1 to {SITE_BYTES_MAX} visible ASCII characters without a comma")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn game_is_found_by_its_sites_and_public_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let (catalog, _) = Catalog::open(folder.path(), 100).expect("a new catalog");
        catalog.save().expect("it is written");
        let two = catalog.create_game("two", "Two", "UTC").expect("a game");
        let set = |id: &str, add: &str| catalog.set_sites(id, &[add.to_owned()], &[]);
        set("demo", "Game.example").expect("a free site");
        set("two", "94db1cb1-74f4-4a40-ad6c-962362670409").expect("a free site");
        assert!(set("two", "game.EXAMPLE").is_err() && set("two", "a b").is_err() && set("two", "").is_err());
        let again = Catalog::open(folder.path(), 200).expect("the same catalog").0;
        let found = |site: &str| again.site_game(site).map(|game| game.id.clone());
        assert_eq!(found("game.example").as_deref(), Some("demo"));
        assert_eq!(found("94DB1CB1-74f4-4a40-ad6c-962362670409").as_deref(), Some("two"));
        assert_eq!((found(&two.public_key).as_deref(), found(""), found("x")), (Some("two"), None, None));
        catalog.set_sites("demo", &[], &["GAME.example".to_owned()]).expect("it is removed");
        assert!(catalog.site_game("game.example").is_none());
    }

    #[test]
    fn visitor_is_the_same_for_a_day_on_a_site() {
        let folder = tempfile::tempdir().expect("a folder");
        let (catalog, _) = Catalog::open(folder.path(), 100).expect("a new catalog");
        let id = |day, site: &str, host| {
            let address = Some(IpAddr::from([203, 0, 113, host]));
            catalog.visitor_id(site, &VisitorKey { day, address, user_agent: "Firefox" })
        };
        let ids = [id(1, "a", 1), id(2, "a", 1), id(1, "b", 1), id(1, "a", 2)];
        assert_eq!(ids[0], id(1, "a", 1));
        assert!(ids[1..].iter().all(|other| *other != ids[0]) && ids[0].len() == 32);
    }
}
