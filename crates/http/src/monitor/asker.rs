//! Whose request is being answered: noted where its credential is checked, read where it is counted.
//!
//! A task-local, because between the two lies every handler there is, and none of them has to know.

use std::cell::Cell;

tokio::task_local! {
    static GAME: Cell<Option<u32>>;
}

/// Answers a request, and says for which game it was, if its credential named one.
pub async fn noting_game<T>(answer: impl Future<Output = T>) -> (Option<u32>, T) {
    let noting = async {
        let answer = answer.await;
        (GAME.with(Cell::get), answer)
    };
    GAME.scope(Cell::new(None), noting).await
}

/// The request that is being answered is one of this game. Outside of a request it means nothing.
pub fn note_game(game: u32) {
    let _ = GAME.try_with(|noted| noted.set(Some(game)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_is_of_the_game_that_was_noted_in_it_last_and_of_no_other() {
        note_game(7);
        let waiting = async |game: u32| {
            note_game(game);
            tokio::task::yield_now().await;
        };
        let (one, other, nobody) =
            tokio::join!(noting_game(waiting(1)), noting_game(waiting(2)), noting_game(async {}));
        assert_eq!([one.0, other.0, nobody.0], [Some(1), Some(2), None]);
    }
}
