/** The same numbers each time. */
export function dice(seed: number) {
  return () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647
}
