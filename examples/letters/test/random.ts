/** A random number generator with a fixed seed. */
export function seededRandom(seed: number) {
  return () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647
}
