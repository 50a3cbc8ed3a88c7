//! Everybody who made, rated or flagged a level, by a small number.

use std::sync::Arc;

use hashbrown::HashMap;

/// One of them.
#[derive(Debug, Default)]
pub(super) struct Person {
    pub(super) id: Arc<str>,
    /// The slots of the levels that this person made, in no particular order.
    pub(super) levels: Vec<u32>,
    /// What the data and the pictures of these levels come to, not compressed.
    pub(super) content_bytes: u64,
    pub(super) votes: u32,
    pub(super) flags: u32,
}

impl Person {
    fn is_idle(&self) -> bool {
        self.levels.is_empty() && self.votes == 0 && self.flags == 0
    }
}

/// Numbers of people. They hold until the next start and are used again when somebody has nothing here any more.
#[derive(Debug, Default)]
pub(super) struct People {
    numbers: HashMap<Arc<str>, u32>,
    people: Vec<Person>,
    free: Vec<u32>,
}

impl People {
    /// The number of somebody who has something here.
    pub(super) fn number(&self, id: &str) -> Option<u32> {
        self.numbers.get(id).copied()
    }

    /// The same, somebody new included.
    pub(super) fn enter(&mut self, id: &str) -> u32 {
        if let Some(number) = self.number(id) {
            return number;
        }
        let id: Arc<str> = id.into();
        let person = Person { id: Arc::clone(&id), ..Person::default() };
        let number = match self.free.pop() {
            Some(number) => {
                self.people[number as usize] = person;
                number
            }
            None => {
                self.people.push(person);
                self.people.len() as u32 - 1
            }
        };
        self.numbers.insert(id, number);
        number
    }

    /// Forgets this person if nothing of theirs is left.
    pub(super) fn leave(&mut self, number: u32) {
        let person = &mut self.people[number as usize];
        if person.is_idle() && self.numbers.remove(&person.id).is_some() {
            *person = Person::default();
            self.free.push(number);
        }
    }

    pub(super) fn get(&self, number: u32) -> &Person {
        &self.people[number as usize]
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Person {
        &mut self.people[number as usize]
    }

    /// The person of this id, if they have something here.
    pub(super) fn find(&self, id: &str) -> Option<&Person> {
        self.number(id).map(|number| self.get(number))
    }
}
