//! Scopes: the rights that a key can be created with.

use serde::{Deserialize, Serialize};

use super::CatalogError;
use super::error::invalid;

/// One right of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Scope {
    /// Send events.
    EventsWrite = 1,
    /// Send events of any age.
    EventsImport = 1 << 1,
    /// Submit scores for any player.
    ScoresWrite = 1 << 2,
    /// Change game variables.
    VarsWrite = 1 << 3,
    /// Moderate players' levels.
    LevelsModerate = 1 << 4,
    /// Run queries and subscribe to live data.
    Query = 1 << 5,
    /// Run SQL queries.
    Sql = 1 << 6,
    /// Export data.
    Export = 1 << 7,
    /// Erase a player.
    PlayersDelete = 1 << 8,
    /// Everything in the game.
    Admin = 1 << 9,
}

impl Scope {
    /// All scopes, in the order in which they are listed.
    pub const ALL: [Scope; 10] = [
        Scope::EventsWrite,
        Scope::EventsImport,
        Scope::ScoresWrite,
        Scope::VarsWrite,
        Scope::LevelsModerate,
        Scope::Query,
        Scope::Sql,
        Scope::Export,
        Scope::PlayersDelete,
        Scope::Admin,
    ];

    /// Returns the name in commands, files and errors.
    pub fn label(self) -> &'static str {
        match self {
            Scope::EventsWrite => "events:write",
            Scope::EventsImport => "events:import",
            Scope::ScoresWrite => "scores:write",
            Scope::VarsWrite => "vars:write",
            Scope::LevelsModerate => "levels:moderate",
            Scope::Query => "query",
            Scope::Sql => "sql",
            Scope::Export => "export",
            Scope::PlayersDelete => "players:delete",
            Scope::Admin => "admin",
        }
    }
}

/// A set of scopes. Stored as a list of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Scopes(u16);

impl Scopes {
    /// Every scope.
    pub const ALL: Scopes = Scopes((1 << 10) - 1);
    /// The scopes of a public key.
    pub(super) const PUBLIC: Scopes = Scopes(Scope::EventsWrite as u16);

    /// Sending events of any age.
    pub(super) const IMPORT: Scopes = Scopes(Scope::EventsWrite as u16 | Scope::EventsImport as u16);

    /// Returns true if the scope is in the set. `admin` includes all others.
    pub fn contains(self, scope: Scope) -> bool {
        self.0 & (scope as u16 | Scope::Admin as u16) != 0
    }

    /// Parses a list of names.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Scopes, CatalogError> {
        let mut scopes = Scopes(0);
        for name in names {
            let found = Scope::ALL.into_iter().find(|scope| scope.label() == name);
            let known = || Scope::ALL.map(Scope::label).join(", ");
            let error = || invalid("scopes", format!("`{name}` is not a scope; the scopes are {}", known()));
            scopes.0 |= found.ok_or_else(error)? as u16;
        }
        Ok(scopes)
    }

    /// Returns the names of the scopes in the set.
    pub fn labels(self) -> Vec<&'static str> {
        Scope::ALL.into_iter().filter(|scope| self.0 & *scope as u16 != 0).map(Scope::label).collect()
    }
}

impl TryFrom<Vec<String>> for Scopes {
    type Error = CatalogError;

    fn try_from(names: Vec<String>) -> Result<Scopes, CatalogError> {
        Scopes::parse(names.iter().map(String::as_str))
    }
}

impl From<Scopes> for Vec<String> {
    fn from(scopes: Scopes) -> Vec<String> {
        scopes.labels().into_iter().map(str::to_owned).collect()
    }
}
