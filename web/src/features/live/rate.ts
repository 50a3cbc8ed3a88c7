/** The window of the headline rate, in seconds: a shorter one flickers, a longer one lags. */
export const RATE_WINDOW_S = 5
