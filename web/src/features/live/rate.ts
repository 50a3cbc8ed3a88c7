/** Over how many seconds the headline rate is taken: fewer would flicker, more would lag. */
export const RATE_OVER_S = 5
