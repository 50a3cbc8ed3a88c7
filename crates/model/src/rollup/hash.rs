//! The hash that identifies players in rollups. It is stored: it cannot change without a new format.

const SECRET: [u64; 4] =
    [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// Hashes a player's id to the 64 bits that represent the player in [`super::Distinct`].
///
/// This is wyhash, final version 4, as of its published vectors (Wang Yi, github.com/wangyi-fudan/wyhash at 77e50f2,
/// public domain), seeded by the game: the same player has unrelated hashes in two games, and without the seed it is
/// hard to choose ids that distort an estimate. It is not a cryptographic hash.
#[inline]
pub fn hash_player(game_seed: u64, player: &[u8]) -> u64 {
    let mut seed = game_seed ^ mix(game_seed ^ SECRET[0], SECRET[1]);
    let (a, b) = match player.len() {
        0 => (0, 0),
        1..=3 => (few(player), 0),
        4..=16 => short(player),
        _ => {
            seed = fold(seed, player);
            (word(player, player.len() - 16), word(player, player.len() - 8))
        }
    };
    let (a, b) = multiply(a ^ SECRET[1], b ^ seed);
    mix(a ^ SECRET[0] ^ player.len() as u64, b ^ SECRET[1])
}

/// Folds all but the last 1 to 16 bytes, in three lanes while more than 48 are left.
#[inline]
fn fold(mut seed: u64, mut bytes: &[u8]) -> u64 {
    if bytes.len() > 48 {
        let (mut second, mut third) = (seed, seed);
        while bytes.len() > 48 {
            seed = mix(word(bytes, 0) ^ SECRET[1], word(bytes, 8) ^ seed);
            second = mix(word(bytes, 16) ^ SECRET[2], word(bytes, 24) ^ second);
            third = mix(word(bytes, 32) ^ SECRET[3], word(bytes, 40) ^ third);
            bytes = &bytes[48..];
        }
        seed ^= second ^ third;
    }
    while bytes.len() > 16 {
        seed = mix(word(bytes, 0) ^ SECRET[1], word(bytes, 8) ^ seed);
        bytes = &bytes[16..];
    }
    seed
}

/// Returns 4 to 16 bytes as four half words, which overlap if there are fewer than 16.
#[inline]
fn short(bytes: &[u8]) -> (u64, u64) {
    let (last, inner) = (bytes.len() - 4, (bytes.len() >> 3) << 2);
    (half(bytes, 0) << 32 | half(bytes, inner), half(bytes, last) << 32 | half(bytes, last - inner))
}

#[inline]
fn few(bytes: &[u8]) -> u64 {
    let at = |index: usize| u64::from(bytes[index]);
    at(0) << 16 | at(bytes.len() >> 1) << 8 | at(bytes.len() - 1)
}

#[inline]
fn half(bytes: &[u8], at: usize) -> u64 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("the slice has 4 bytes")).into()
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("the slice has 8 bytes"))
}

#[inline]
fn multiply(a: u64, b: u64) -> (u64, u64) {
    let product = u128::from(a) * u128::from(b);
    (product as u64, (product >> 64) as u64)
}

#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let (low, high) = multiply(a, b);
    low ^ high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seed: u64, player: &str, hash: u64) {
        assert_eq!(hash_player(seed, player.as_bytes()), hash, "{seed} {player:?}");
    }

    #[test]
    fn hash_matches_the_published_vectors() {
        check(0, "", 0x0409_638e_e2bd_e459);
        check(1, "a", 0xa841_2d09_1b5f_e0a9);
        check(2, "abc", 0x32dd_92e4_b291_5153);
        check(3, "message digest", 0x8619_1240_89a3_a16b);
        check(4, "abcdefghijklmnopqrstuvwxyz", 0x7a43_afb6_1d7f_5f40);
        check(5, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 0xff42_329b_90e5_0d58);
        check(
            6,
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
            0xc39c_ab13_b115_aad3,
        );
    }

    #[test]
    fn each_input_bit_changes_half_of_the_hash() {
        for length in 1..=64 {
            let player = vec![7u8; length];
            let flipped = (0..length * 8).map(|bit| {
                let mut other = player.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                (hash_player(9, &player) ^ hash_player(9, &other)).count_ones()
            });
            let mean = flipped.sum::<u32>() as f64 / (length * 8) as f64;
            assert!((24.0..40.0).contains(&mean), "{mean} bits at {length} bytes");
        }
    }
}
