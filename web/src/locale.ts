/**
 * The locale of numbers and dates: the languages of the browser. Texts are English and times have 24 hours in every
 * locale. Without a browser, as in tests, it is `en-GB`.
 */
export const LOCALE: readonly string[] = browserLanguages() ?? ['en-GB']

/** Returns nothing if the browser names no language that `Intl` knows. */
function browserLanguages(): string[] | undefined {
  if (typeof document === 'undefined') return undefined
  try {
    return Intl.NumberFormat.supportedLocalesOf([...navigator.languages]).slice(0, 1).concat('en-GB')
  } catch {
    return undefined
  }
}
